// A list that draws the rows in view alone, however long it is.
import { h, morphInto } from './dom.js';

// margin is the number of rows that are drawn above and below those in view.
const margin = 8;

// Rows is a list of items with rows of one height. Draw makes the element of an
// item, and key names the item. Open is called for the row that the person
// chooses, and press for keys that the list does not use.
export class Rows {
  constructor({ role, label, draw, key, open, press, describe }) {
    Object.assign(this, { draw, key, open, press, describe });
    this.itemRole = role === 'tree' ? 'treeitem' : 'option';
    this.items = [];
    this.chosen = null;
    this.drawn = new Map();
    this.space = h('div', { class: 'rows-space', role: 'presentation' });
    this.el = h('div', { class: 'rows', role, 'aria-label': label, tabindex: '0', onkeydown: (e) => this.#key(e) }, this.space);
    this.el.addEventListener('scroll', () => this.#later(), { passive: true });
    this.el.addEventListener('click', (e) => this.#click(e));
    this.watch = new ResizeObserver(() => { this.#draw(true); });
    this.watch.observe(this.el);
  }

  // close ends the list.
  close() { this.watch.disconnect(); }

  // set replaces the items. All rows in view are drawn again.
  set(items) {
    this.items = items;
    this.#draw(true);
  }

  // choose marks the row of a key, and brings it into view if asked.
  choose(key, show = true) {
    this.chosen = key;
    const i = this.items.findIndex((item) => this.key(item) === key);
    if (i >= 0 && show) {
      const top = i * this.height();
      if (top < this.el.scrollTop) this.el.scrollTop = top;
      else if (top + this.height() > this.el.scrollTop + this.el.clientHeight) {
        this.el.scrollTop = top + this.height() - this.el.clientHeight;
      }
    }
    this.#draw(true);
  }

  // height is the height of a row, which the style sheet has.
  height() { return parseFloat(getComputedStyle(this.el).getPropertyValue('--row')) || 32; }

  #later() {
    this.frame ??= requestAnimationFrame(() => { this.frame = null; this.#draw(false); });
  }

  // draw makes the rows in view. Those that were there are kept, and brought up to
  // date if all are to be drawn again.
  #draw(again) {
    const height = this.height();
    const first = Math.max(0, Math.floor(this.el.scrollTop / height) - margin);
    const end = Math.min(this.items.length, Math.ceil((this.el.scrollTop + this.el.clientHeight) / height) + margin);
    this.space.style.height = `${this.items.length * height}px`;
    const drawn = new Map();
    for (let i = first; i < end; i++) {
      const key = this.key(this.items[i]);
      const old = this.drawn.get(key);
      const el = old ?? this.#row(this.items[i], i, key);
      if (old && again) morphInto(old, this.#row(this.items[i], i, key));
      el.style.transform = `translateY(${i * height}px)`;
      if (!old) this.space.append(el);
      drawn.set(key, el);
    }
    for (const [key, el] of this.drawn) if (!drawn.has(key)) el.remove();
    this.drawn = drawn;
    const active = this.drawn.get(this.chosen);
    if (active) this.el.setAttribute('aria-activedescendant', active.id);
    else this.el.removeAttribute('aria-activedescendant');
  }

  #row(item, i, key) {
    const el = this.draw(item);
    el.classList.add('row');
    el.id = `row-${key}`;
    el.dataset.key = key;
    el.setAttribute('role', this.itemRole);
    el.setAttribute('aria-selected', String(key === this.chosen));
    el.setAttribute('aria-posinset', String(i + 1));
    el.setAttribute('aria-setsize', String(this.items.length));
    this.describe?.(el, item);
    return el;
  }

  #click(e) {
    const row = e.target.closest('.row');
    if (!row || e.target.closest('button') || e.ctrlKey || e.metaKey || e.shiftKey) return;
    const item = this.items.find((it) => this.key(it) === row.dataset.key);
    if (!item) return;
    e.preventDefault();
    this.choose(row.dataset.key, false);
    this.open(item);
  }

  #key(e) {
    if (e.target !== this.el || e.ctrlKey || e.metaKey || e.altKey) return;
    const i = this.items.findIndex((item) => this.key(item) === this.chosen);
    const page = Math.max(1, Math.floor(this.el.clientHeight / this.height()) - 1);
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page }[e.key];
    let to = null;
    if (step) to = i < 0 ? 0 : i + step;
    else if (e.key === 'Home') to = 0;
    else if (e.key === 'End') to = this.items.length - 1;
    else if (e.key === 'Enter' && i >= 0) { e.preventDefault(); this.open(this.items[i]); return; } else {
      if (i >= 0 && this.press?.(e.key, this.items[i])) e.preventDefault();
      return;
    }
    e.preventDefault();
    if (this.items.length > 0) this.choose(this.key(this.items[Math.max(0, Math.min(this.items.length - 1, to))]));
  }
}
