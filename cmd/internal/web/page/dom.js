// Elements, formats and dialogs. All text of the bus reaches the page through
// h: it becomes text nodes, and never HTML.

// h makes an element. An attribute with a function is a listener. Children that
// are null or false are left out, and texts become text nodes.
export function h(tag, attrs, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs ?? {})) {
    if (value == null || value === false) continue;
    if (typeof value === 'function') el.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked') el[name] = value;
    else el.setAttribute(name, value === true ? '' : value);
  }
  add(el, children);
  return el;
}

function add(el, children) {
  for (const c of children) {
    if (Array.isArray(c)) add(el, c);
    else if (c != null && c !== false) el.append(c instanceof Node ? c : String(c));
  }
}

// fill replaces the children of an element.
export function fill(el, ...children) {
  el.replaceChildren();
  add(el, children);
  return el;
}

// update is fill for an element that is drawn again and again: it keeps the nodes
// that stay the same, so that a click, a selection and an unfolded part survive.
export function update(el, ...children) {
  const fresh = fill(document.createElement('div'), ...children);
  morphChildren(el, fresh);
  return el;
}

// morph makes a node like a fresh one, and returns the one that is to stay. A
// node that a person acts on is kept only if it is equal: its listener belongs
// to it.
export function morph(old, fresh) {
  if (old.tagName === 'DETAILS' && fresh.tagName === 'DETAILS') fresh.open = old.open;
  if (old.isEqualNode(fresh)) return old;
  if (old.nodeType === Node.TEXT_NODE && fresh.nodeType === Node.TEXT_NODE) {
    old.data = fresh.data;
    return old;
  }
  if (old.tagName !== fresh.tagName || acts.has(old.tagName)) {
    old.replaceWith(fresh);
    return fresh;
  }
  morphInto(old, fresh);
  return old;
}

const acts = new Set(['A', 'BUTTON', 'DETAILS', 'FORM', 'INPUT', 'SELECT', 'TEXTAREA', undefined]);

// morphInto gives an element the attributes and the children of a fresh one.
export function morphInto(old, fresh) {
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== 'style') old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) {
    if (name !== 'style' && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const next = [...fresh.childNodes];
  for (let i = 0; i < next.length; i++) {
    const there = old.childNodes[i];
    if (there) morph(there, next[i]);
    else old.append(next[i]);
  }
  while (old.childNodes.length > next.length) old.lastChild.remove();
}

// web returns an address that a link may have. It returns null for any other,
// such as one with a script.
export function web(address) {
  return /^https?:\/\//i.test(address ?? '') ? address : null;
}

// route makes the address of a view from its segments and its query.
export function route(segments, query = {}) {
  const q = new URLSearchParams(Object.entries(query).filter(([, v]) => v));
  const path = segments.map(encodeURIComponent).join('/');
  return `#/${path}${q.size ? `?${q}` : ''}`;
}

// Clock: the server's clock may differ from that of this machine.
let offset = 0;

// setClock takes the time of an answer of the server. It has whole seconds, so
// a small difference is none.
export function setClock(date) {
  const difference = Date.parse(date) - Date.now();
  offset = Math.abs(difference) > 2500 ? difference : 0;
}

// now returns the time of the server in milliseconds.
export const now = () => Date.now() + offset;

// when parses a time of the API, in milliseconds. It is NaN without one.
export const when = (text) => (text ? Date.parse(text) : NaN);

// span formats a length of time in milliseconds.
export function span(ms) {
  if (!(ms >= 0)) return ms < 0 ? '0s' : '';
  const s = ms / 1000;
  if (s < 1) return `${Math.round(ms)}ms`;
  if (s < 10) return `${s.toFixed(1)}s`;
  if (s < 60) return `${Math.floor(s)}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${String(Math.floor(s % 60)).padStart(2, '0')}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${String(Math.floor(s / 60) % 60).padStart(2, '0')}m`;
  return `${Math.floor(s / 86400)}d ${Math.floor(s / 3600) % 24}h`;
}

const units = { s: 1000, min: 60_000, h: 3_600_000 };

// aged brings the ages in a reason up to date: "since 3 s" was true at a time.
export function aged(why, at) {
  return why?.replace(/\bsince (\d+) (s|min|h)\b/g, (_, n, unit) => {
    const age = n * units[unit] + Math.max(0, now() - at);
    const best = age < 60_000 ? 's' : age < 3_600_000 ? 'min' : 'h';
    return `since ${Math.floor(age / units[best])} ${best}`;
  });
}

// count formats a number: 950, 4.5k, 1.2M.
export function count(n) {
  if (n < 1000) return String(n ?? 0);
  if (n < 999_950) return `${(n / 1000).toFixed(n < 99_950 ? 1 : 0)}k`;
  return `${(n / 1e6).toFixed(1)}M`;
}

// many returns a number with its noun.
export const many = (n, noun) => `${count(n)} ${noun}${n === 1 ? '' : 's'}`;

// tokens returns the sum of the tokens of a line.
export const tokens = (l) => (l.input_tokens ?? 0) + (l.output_tokens ?? 0);

// tokenText lists the tokens of a line.
export function tokenText(l) {
  const cached = l.cached_tokens ? `, ${count(l.cached_tokens)} of the input cached` : '';
  return `${count(l.input_tokens ?? 0)} in, ${count(l.output_tokens ?? 0)} out${cached}`;
}

// costText formats the cost of a line: two decimals or, below a tenth of a unit,
// two significant digits. It is empty for a line without a cost. A + stands for
// tokens that have no price.
export function costText(l) {
  if (l.cost === undefined) return '';
  let decimals = 2;
  for (let edge = 0.1; l.cost > 0 && l.cost < edge && decimals < 9; edge /= 10) decimals++;
  return `${l.cost.toFixed(decimals)}${l.cost_partial ? '+' : ''} ${l.currency ?? ''}`;
}

// costOf sums the costs of lines.
export function costOf(lines) {
  const priced = lines.filter((l) => l.cost !== undefined);
  if (priced.length === 0) return {};
  return {
    cost: priced.reduce((sum, l) => sum + l.cost, 0), currency: priced[0].currency,
    cost_partial: lines.some((l) => l.cost_partial || (l.cost === undefined && tokens(l) > 0)),
  };
}

// clock formats the time of day, and the date if it is another day.
export function clock(text) {
  const d = new Date(text);
  if (Number.isNaN(d.getTime())) return '';
  const day = d.toDateString() === new Date(now()).toDateString() ? '' : `${d.toLocaleDateString()} `;
  return day + d.toLocaleTimeString(undefined, { hour12: false });
}

// time makes an element with a time. Its title has the whole of it.
export function time(text, show = clock) {
  const d = new Date(text);
  if (!text || Number.isNaN(d.getTime())) return '';
  return h('time', { datetime: text, title: d.toString() }, show(text));
}

// firstLine returns the first line of a text that is not empty.
export function firstLine(text, most = 160) {
  const line = (text ?? '').split('\n', 50).map((l) => l.trim()).find(Boolean) ?? '';
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

const signs = {
  completed: '✓', failed: '✗', held: '?', queued: '·', waiting: '○', awaiting: '○', idle: '◌', polling: '○',
  running: '●', ready: '●',
};

// badge shows a status as a sign and a word, so that colour says nothing alone.
export function badge(status) {
  return h('span', { class: `badge s-${status}` }, h('span', { class: 'sign', 'aria-hidden': 'true' }, signs[status] ?? '·'),
    ' ', status);
}

// sign shows a status as a sign alone.
export function sign(status) {
  return h('span', { class: `sign s-${status}`, title: status }, signs[status] ?? '·');
}

// facts makes a list of names and values. Empty values are left out.
export function facts(pairs) {
  return h('dl', { class: 'facts' }, pairs.filter(([, v]) => v != null && v !== '' && v !== false)
    .map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));
}

// most is the length of a text that is drawn without being asked for.
const most = 20_000;

// prose shows a text of the bus. A long one is shown in part, with a button for
// the rest.
export function prose(text, kind = '') {
  const el = h('div', { class: `prose ${kind}` });
  if (text.length <= most) return fill(el, text);
  const more = h('button', { type: 'button', class: 'link', onclick: () => fill(el, text) },
    `Show all ${count(text.length)} characters`);
  return fill(el, text.slice(0, most), '… ', more);
}

// toast shows a message for some seconds. An error stays longer.
export function toast(text, failed = false) {
  const el = h('div', { class: failed ? 'toast failed' : 'toast' }, text,
    h('button', { type: 'button', class: 'quiet', 'aria-label': 'Close', onclick: () => el.remove() }, '×'));
  document.getElementById('toasts').append(el);
  setTimeout(() => el.remove(), failed ? 15_000 : 5_000);
}

// ask opens a dialog with fields, and returns their values, or null if the
// person leaves it. A field has a name, a label, and a kind: text, area,
// password, number, check or select with choices.
export function ask({ title, text, fields = [], action, danger = false, extra }) {
  return new Promise((resolve) => {
    const inputs = {};
    const rows = fields.map((f) => {
      const input = control(f);
      inputs[f.name] = input;
      return h('label', { class: f.kind === 'check' ? 'check' : '' }, h('span', null, f.label), input,
        f.hint && h('small', null, f.hint));
    });
    const done = (values) => { resolve(values); dialog.close(); dialog.remove(); };
    const form = h('form', {
      onsubmit: (e) => {
        e.preventDefault();
        done(Object.fromEntries(Object.entries(inputs).map(([name, i]) => [name, i.type === 'checkbox' ? i.checked : i.value])));
      },
    }, h('h2', null, title), text && h('p', null, text), extra, rows,
    h('div', { class: 'buttons' },
      h('button', { type: 'button', onclick: () => done(null) }, 'Close'),
      h('button', { type: 'submit', class: danger ? 'danger' : 'primary' }, action)));
    const dialog = h('dialog', { 'aria-label': title, oncancel: () => done(null) }, form);
    document.body.append(dialog);
    dialog.showModal();
    (Object.values(inputs)[0] ?? form.querySelector('[type=submit]')).focus();
  });
}

// control makes the input of a field.
export function control(f) {
  if (f.kind === 'select') {
    return h('select', { name: f.name }, f.choices.map(([value, label]) =>
      h('option', { value, selected: value === f.value }, label ?? value)));
  }
  if (f.kind === 'area') {
    return h('textarea', { name: f.name, rows: f.rows ?? 5, required: f.required, value: f.value ?? '', spellcheck: 'false' });
  }
  return h('input', {
    name: f.name, type: f.kind === 'check' ? 'checkbox' : f.kind ?? 'text', required: f.required,
    value: f.kind === 'check' ? 'on' : f.value ?? '', checked: f.kind === 'check' && f.value, list: f.list,
    min: f.kind === 'number' ? '0' : null, autocomplete: 'off',
  });
}
