// The page of axe ui and agentd --http. The part of the address after # names
// the view, so that each view has a link.
import { get, poll, trouble } from './api.js';
import { ask, fill, h } from './dom.js';
import { agents, letters, workers } from './fleet.js';
import { held } from './held.js';
import { submit } from './submit.js';
import { diff, tree } from './tree.js';
import { trees } from './trees.js';

const views = { trees, tree, diff, held, dead: letters, agents, workers, submit };
const main = document.getElementById('main');

// current is the view on the page: the controller that ends it, and a function
// that may show another address without making the view anew.
let current = { stop: new AbortController(), show: null };

// parse takes the address of a view apart.
function parse(hash) {
  const [path, query] = hash.replace(/^#\/?/, '').split('?', 2);
  const segments = path.split('/').filter(Boolean).map((s) => {
    try { return decodeURIComponent(s); } catch { return s; }
  });
  return { segments: segments.length > 0 ? segments : ['trees'], query: Object.fromEntries(new URLSearchParams(query ?? '')) };
}

function show() {
  const at = parse(location.hash);
  if (current.show?.(at)) return;
  current.stop.abort();
  const stop = new AbortController();
  current = { stop, show: null };
  trouble('');
  const section = at.segments[0];
  document.title = ['Axe', ...at.segments].join(' · ');
  for (const a of document.querySelectorAll('#nav a')) {
    const on = a.dataset.section === section || section === 'tree' && a.dataset.section === 'trees';
    if (on) {
      a.setAttribute('aria-current', 'page');
      a.scrollIntoView({ block: 'nearest', inline: 'center' });
    } else a.removeAttribute('aria-current');
  }
  main.className = `view-${section}`;
  main.replaceChildren();
  const view = views[section];
  if (!view) {
    fill(main, h('p', { class: 'summary' }, 'There is no such view. ', h('a', { href: '#/trees' }, 'The list of trees')));
    return;
  }
  const result = view(main, { ...at, signal: stop.signal });
  if (typeof result === 'function') current.show = result;
}

// A view tells when its connection is lost, and when it is there again.
main.addEventListener('lost', (e) => trouble(e.detail ? 'The connection to the server is lost. The page connects again.' : ''));

const keys = [
  ['1 to 6', 'sections'], ['↑ ↓, j k', 'rows'], ['Enter', 'open a row'], ['← →', 'fold and unfold a run'], ['/', 'filter'],
  ['w, o', 'waterfall, outline'], ['Esc', 'back'], ['?', 'this list'],
];

function help() {
  ask({ title: 'Keys', action: 'Good', extra: h('dl', { class: 'keys' }, keys.map(([k, what]) => h('div', null, h('dt', null, k), h('dd', null, what)))) });
}

document.getElementById('help').addEventListener('click', help);

document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
  const at = parse(location.hash);
  if (e.key === 'Escape') {
    if (e.target.closest('input, textarea, select')) e.target.blur();
    else if (at.segments[0] === 'tree') location.hash = at.segments[2] ? location.hash.replace(/(#\/tree\/[^/?]+)\/[^/?]+/, '$1') : '#/trees';
    return;
  }
  if (e.target.closest('input, textarea, select')) return;
  const links = document.querySelectorAll('#nav a');
  const number = Number(e.key);
  if (number >= 1 && number <= links.length) location.hash = links[number - 1].hash;
  else if (e.key === '?') help();
  else if (e.key === '/') { e.preventDefault(); document.querySelector('[data-find]')?.focus(); } else if (e.key === 'w' || e.key === 'o') {
    const tab = document.querySelectorAll('.tabs a')[e.key === 'w' ? 0 : 1];
    if (tab) location.hash = tab.hash;
  }
});

window.addEventListener('hashchange', show);
show();

// The number of held turns and calls is seen from every view.
poll(async () => {
  const all = await get('/v1/held');
  const n = all.turns.length + all.calls.length;
  const el = document.getElementById('held-count');
  el.textContent = String(n);
  el.hidden = n === 0;
}, 5000, new AbortController().signal, () => {});
