// One tree: its runs as a waterfall over time or as an outline, live.
import { download, follow, get, hasToken, steer } from './api.js';
import {
  aged, ask, badge, clock, costOf, costText, count, facts, fill, firstLine, h, many, now, prose, route, sign, span, time, toast, tokens, tokenText, update, when,
} from './dom.js';
import { Rows } from './rows.js';
import { runPanel } from './run.js';

const kinds = [['queue', 'queue'], ['model', 'model'], ['tool', 'tool'], ['wait', 'waits for runs or mail'], ['held', 'held for a person']];

// ended reports whether a run has an outcome.
const ended = (run) => run.status === 'completed' || run.status === 'failed';

// depth is the number of runs above a run.
const depth = (path) => (path.split('-').length - 1) / 2;

// parent is the path of the run above a run.
const parent = (path) => path.split('-').slice(0, -2).join('-');

// byPath orders runs: each before those below it, by turns and calls.
function byPath(a, b) {
  const x = a.split('-');
  const y = b.split('-');
  for (let i = 1; i < Math.min(x.length, y.length); i++) {
    if (x[i] !== y[i]) return x[i] - y[i];
  }
  return x.length - y.length;
}

// whyOf is the reason of a run.
const whyOf = (run) => aged(run.why, run.at);

// name is the agent or the tool of a run.
const name = (run) => run.tool || run.agent;

// tree shows one tree. It returns a function that shows another part of the same
// tree, so that a way inside the tree does not read it again.
export function tree(main, { segments, query, signal }) {
  const id = segments[1];
  const runs = new Map();
  const folded = new Set();
  let order = [];
  let view = query.view === 'outline' ? 'outline' : 'waterfall';
  let path = segments[2] ?? '';
  let only = '';
  let over = false;
  let panel = null;
  let dirty = false;
  let frame = null;

  const head = h('section', { class: 'tree-top', 'aria-label': 'Tree' }, h('p', { class: 'summary' }, 'Reading…'));
  const axis = h('div', { class: 'axis', 'aria-hidden': 'true' });
  const side = h('aside', { class: 'side', 'aria-label': 'Run', hidden: true });
  const here = (change = {}) => route(['tree', id, ...(change.path ?? path ? [change.path ?? path] : [])],
    { view: (change.view ?? view) === 'outline' ? 'outline' : '' });
  const rows = new Rows({
    role: 'tree', label: 'Runs', key: (r) => r.path, draw: (r) => (view === 'outline' ? outlineRow(r) : barRow(r)),
    open: (r) => { location.hash = here({ path: r.path }); },
    press: fold,
    describe: (el, r) => {
      el.setAttribute('aria-level', String(depth(r.path) + 1));
      if (hasRuns(r.path)) el.setAttribute('aria-expanded', String(!folded.has(r.path)));
    },
  });
  const tabs = h('div', { class: 'tabs', role: 'group', 'aria-label': 'View' });
  const filter = h('input', {
    placeholder: 'Agent, text or status', 'aria-label': 'Filter of runs', 'data-find': '',
    oninput: (e) => { only = e.target.value.trim().toLowerCase(); draw(); },
  });
  const legend = h('ul', { class: 'legend', 'aria-label': 'Legend' },
    kinds.map(([kind, label]) => h('li', null, h('i', { class: `bar-span k-${kind}` }), label)));
  const artifacts = h('section', { class: 'artifacts', 'aria-label': 'Artifacts' });
  fill(main, head,
    h('div', { class: 'split' },
      h('div', { class: 'runs' }, h('div', { class: 'bar' }, tabs, filter, legend), axis, rows.el, artifacts),
      side));

  // Runs.

  const root = () => runs.get('r');
  const hasRuns = (p) => below.has(p);
  let below = new Set();

  function arrange() {
    order = [...runs.keys()].sort(byPath);
    below = new Set(order.map(parent));
  }

  function matches(run) {
    return [run.path, run.agent, run.tool, run.status, run.task, run.why, run.error, run.kind, run.worker, run.model]
      .some((text) => text?.toLowerCase().includes(only));
  }

  // shown are the runs that are not folded away. With a filter they are those
  // that match, and the runs above them.
  function shown() {
    const keep = new Set();
    if (only) {
      for (const p of order) {
        if (!matches(runs.get(p))) continue;
        for (let q = p; q && !keep.has(q); q = parent(q)) keep.add(q);
      }
    }
    let hidden = '';
    return order.filter((p) => {
      if (only) return keep.has(p);
      if (hidden && p.startsWith(hidden)) return false;
      hidden = folded.has(p) ? `${p}-` : '';
      return true;
    }).map((p) => runs.get(p));
  }

  function fold(key, run) {
    const p = run.path;
    if (key === 'ArrowLeft' && hasRuns(p) && !folded.has(p)) folded.add(p);
    else if (key === 'ArrowLeft' && p !== 'r') rows.choose(parent(p));
    else if (key === 'ArrowRight' && folded.has(p)) folded.delete(p);
    else return false;
    draw();
    return true;
  }

  function toggle(p) {
    if (!folded.delete(p)) folded.add(p);
    draw();
  }

  const knot = (run) => (hasRuns(run.path)
    ? h('button', {
      type: 'button', class: 'knot', tabindex: '-1', 'aria-label': folded.has(run.path) ? 'Unfold' : 'Fold',
      onclick: (e) => { e.stopPropagation(); toggle(run.path); },
    }, folded.has(run.path) ? '▸' : '▾')
    : h('span', { class: 'knot' }));

  function label(run) {
    const el = h('span', { class: 'run-name' }, knot(run), sign(run.status), ' ', h('b', null, name(run)), ' ',
      h('span', { class: 'dim mono' }, run.path));
    el.style.paddingLeft = `${Math.min(depth(run.path), 12) * 14}px`;
    return el;
  }

  // outlineRow is a run as a line of text.
  function outlineRow(run) {
    const text = ended(run) ? (run.status === 'failed' ? `${run.kind ?? 'failed'}: ${run.error ?? ''}` : run.result ?? '') : whyOf(run) ?? run.status;
    return h('div', { class: 'run-row outline' }, label(run),
      h('span', { class: `cut ${run.status === 'failed' ? 'bad' : ''}` }, firstLine(text)),
      h('span', { class: 'cut dim' }, firstLine(run.task)),
      h('span', { class: 'num' }, tokens(run) ? `${count(tokens(run))} tok` : ''),
      h('span', { class: 'num' }, span(length(run))));
  }

  const length = (run) => (Number.isNaN(when(run.ended)) ? now() : when(run.ended)) - when(run.called);

  // range is the time from the first call to the end of the tree, or to now.
  let range = { from: 0, to: 1 };

  function measure() {
    let from = Infinity;
    let to = -Infinity;
    for (const run of runs.values()) {
      const at = when(run.called ?? run.spans?.[0]?.from);
      if (at < from) from = at;
      const end = ended(run) ? when(run.ended) : now();
      if (end > to) to = end;
    }
    range = from < to ? { from, to: Math.max(to, from + 1) } : { from: now() - 1, to: now() };
  }

  // room is the width of a text in percent of the time axis.
  const room = (text) => ((text.length * 7 + 12) / (axis.lastElementChild?.clientWidth || 600)) * 100;

  // barRow is a run as a bar over the time of the tree.
  function barRow(run) {
    const track = h('span', { class: 'track' });
    const whole = range.to - range.from;
    for (const s of merged(run.spans ?? [], whole / 400)) {
      const bar = h('i', { class: `bar-span k-${s.kind}`, title: `${s.kind} ${span(s.to - s.from)}` });
      bar.style.left = `${((s.from - range.from) / whole) * 100}%`;
      bar.style.width = `max(2px, ${((s.to - s.from) / whole) * 100}%)`;
      track.append(bar);
    }
    const from = ((when(run.called) - range.from) / whole) * 100;
    const to = (((ended(run) ? when(run.ended) : now()) - range.from) / whole) * 100;
    const took = span(length(run));
    const more = run.status === 'failed' ? `${run.kind ?? 'failed'}: ${run.error ?? ''}` : ended(run) ? '' : whyOf(run) ?? '';
    let text = `${took} ${firstLine(more, 80)}`.trim();
    if (to + room(text) > 100 && from < room(text)) text = took;
    const note = h('span', { class: `track-time ${run.status === 'failed' ? 'bad' : ''}` }, text);
    // The note stands after the bar, before it, or in it: where it has room.
    if (to + room(text) <= 100) note.style.left = `${to}%`;
    else if (from >= room(text)) note.style.right = `${100 - from}%`;
    else {
      note.classList.add('inside');
      note.style.right = `${100 - to}%`;
    }
    track.append(note);
    return h('div', { class: 'run-row waterfall' }, label(run), track);
  }

  // drawAxis draws the times above the bars.
  function drawAxis() {
    axis.hidden = view === 'outline' || runs.size === 0;
    if (axis.hidden) return;
    const whole = range.to - range.from;
    const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 18e5, 36e5, 72e5,
      216e5, 432e5, 864e5, 6048e5];
    const most = axis.clientWidth > 700 ? 7 : 4;
    const step = steps.find((s) => whole / s <= most) ?? whole;
    const ticks = h('span', { class: 'ticks' });
    for (let t = 0; t <= whole; t += step) {
      const text = t === 0 ? '0' : span(t);
      const at = (t / whole) * 100;
      // A tick near the end has no room for its time.
      const tick = h('i', null, at + room(text) <= 100 ? text : '');
      tick.style.left = `${at}%`;
      ticks.append(tick);
    }
    update(axis, h('span', null, clock(range.from)), ticks);
  }

  // Head.

  // culprit is the run that a failed tree has failed for: the deepest of the
  // failed ones, the first of them.
  function culprit() {
    const failed = order.map((p) => runs.get(p)).filter((r) => r.status === 'failed' && r.path !== 'r');
    return failed.find((r) => !failed.some((q) => q.path.startsWith(`${r.path}-`)));
  }

  function drawHead() {
    const r = root();
    if (!r) return;
    const all = [...runs.values()];
    const sum = { input_tokens: 0, output_tokens: 0, cached_tokens: 0 };
    const models = new Map();
    let turns = 0;
    for (const run of all) {
      turns += run.turns;
      for (const k of Object.keys(sum)) sum[k] += run[k] ?? 0;
      if (tokens(run)) models.set(run.model ?? 'unknown', (models.get(run.model ?? 'unknown') ?? 0) + tokens(run));
    }
    const held = all.filter((run) => run.status === 'held');
    const first = r.status === 'failed' && culprit();
    const link = (run) => h('a', { href: here({ path: run.path }) }, `${run.path} (${name(run)})`);
    update(head,
      h('div', { class: 'title' },
        h('h1', null, r.agent, ' ', h('span', { class: 'mono dim' }, id)), badge(r.status),
        h('div', { class: 'buttons' },
          ended(r) && h('button', { type: 'button', onclick: again }, 'Submit again'),
          h('a', { class: 'button', href: route(['diff', id]) }, 'Compare'),
          !ended(r) && h('button', { type: 'button', class: 'danger', onclick: cancel }, 'Cancel tree'))),
      r.task && h('details', { class: 'task' }, h('summary', null, firstLine(r.task)), prose(r.task)),
      r.status === 'failed' && h('p', { class: 'reason bad' }, `${r.kind ?? 'failed'}: ${r.error ?? ''}`,
        first && [' — first failed run: ', link(first)]),
      !ended(r) && r.why && h('p', { class: 'reason' }, whyOf(r)),
      held.length > 0 && h('p', { class: 'reason held' }, 'Held for a person: ', held.map((run, i) => [i > 0 && ', ', link(run)])),
      facts([
        ['began', time(r.called)], ['took', span(length(r))],
        ['runs', `${all.filter(ended).length} of ${all.length} ended`], ['turns', turns], ['tokens', tokenText(sum)],
        ['cost', costText(costOf(all))],
        ['by model', models.size > 1 && [...models].map(([m, n]) => `${m} ${count(n)}`).join(', ')],
        ['model', models.size === 1 && [...models.keys()][0]],
      ]));
  }

  async function again() {
    try {
      const { run } = await get(`/v1/trees/${encodeURIComponent(id)}/runs/r`, signal);
      sessionStorage.setItem('axe-task', run.task ?? '');
      location.hash = route(['submit', run.agent], { again: id });
    } catch (e) {
      toast(e.message, true);
    }
  }

  async function cancel() {
    const v = await ask({
      title: `Cancel tree ${id}?`, text: 'All its runs end. This cannot be undone.', action: 'Cancel the tree', danger: true,
      fields: [{ name: 'reason', label: 'Reason' }],
    });
    if (v) await steer(id, 'cancel', { path: 'r', reason: v.reason }, 'The tree is being cancelled.');
  }

  // Drawing.

  function drawTabs() {
    fill(tabs, [['waterfall', 'Waterfall'], ['outline', 'Outline']].map(([v, text]) =>
      h('a', { href: here({ view: v }), 'aria-current': v === view ? 'true' : null }, text)));
    legend.hidden = view === 'outline';
  }

  function draw() {
    frame = null;
    if (dirty) arrange();
    dirty = false;
    measure();
    drawHead();
    drawAxis();
    rows.set(shown());
    panel?.run(runs.get(path));
  }

  const later = () => { frame ??= requestAnimationFrame(draw); };

  function showRun() {
    panel?.close();
    panel = null;
    side.hidden = !path;
    main.classList.toggle('has-side', Boolean(path));
    if (path) {
      panel = runPanel(side, { tree: id, path, signal, up: () => { location.hash = route(['tree', id], { view: view === 'outline' ? view : '' }); } });
      panel.run(runs.get(path));
      rows.choose(path);
    }
  }

  async function showArtifacts() {
    const list = await get(`/v1/trees/${encodeURIComponent(id)}/artifacts`, signal).catch(() => ({ artifacts: [] }));
    if (list.artifacts.length === 0) return;
    fill(artifacts, h('h2', null, many(list.artifacts.length, 'artifact')), h('ul', null, list.artifacts.map((a) => {
      const at = `/v1/trees/${encodeURIComponent(id)}/artifacts/${encodeURIComponent(a.name)}`;
      return h('li', null,
        hasToken()
          ? h('button', { type: 'button', class: 'link', onclick: () => download(at, a.name) }, a.name)
          : h('a', { href: at, download: '' }, a.name),
        h('span', { class: 'dim' }, ` ${count(a.size)} bytes, by ${a.path}`));
    })));
  }

  drawTabs();
  showRun();
  showArtifacts();
  rows.el.focus({ preventScroll: true });
  window.addEventListener('resize', later, { signal });
  const clockTimer = setInterval(() => { if (!over && runs.size > 0 && !document.hidden) draw(); }, 1000);
  signal.addEventListener('abort', () => {
    clearInterval(clockTimer);
    cancelAnimationFrame(frame);
    rows.close();
    panel?.close();
    main.classList.remove('has-side');
  });
  follow(`/v1/trees/${encodeURIComponent(id)}/events`, {
    signal,
    lost: (is) => main.dispatchEvent(new CustomEvent('lost', { detail: is })),
    on: (event, data) => {
      if (event === 'run') {
        if (!runs.has(data.path)) dirty = true;
        runs.set(data.path, { ...data, at: now() });
      } else if (event === 'event') panel?.event(data);
      else if (event === 'end') { over = true; showArtifacts(); }
      later();
    },
  }).catch((e) => fill(head, h('p', { class: 'reason bad' }, e.message)));

  return ({ segments: s, query: q }) => {
    if (s[0] !== 'tree' || s[1] !== id) return false;
    view = q.view === 'outline' ? 'outline' : 'waterfall';
    const moved = (s[2] ?? '') !== path;
    path = s[2] ?? '';
    drawTabs();
    if (moved) showRun();
    draw();
    return true;
  };
}

// merged joins spans that are shorter than least, so that a long run has no
// thousand bars. A joined span has the kind of its longest part.
function merged(spans, least) {
  const all = [];
  let part = 0;
  for (const s of spans) {
    const one = { kind: s.kind, from: when(s.from), to: s.to ? when(s.to) : now() };
    const last = all.at(-1);
    if (last && last.to - last.from < least && one.to - one.from < least) {
      if (one.to - one.from > part) { last.kind = one.kind; part = one.to - one.from; }
      last.to = one.to;
    } else {
      all.push(one);
      part = one.to - one.from;
    }
  }
  return all;
}

// diff shows where two trees part. Without a second one it lists the trees of the
// same agent.
export async function diff(main, { segments, signal }) {
  const [, a, b] = segments;
  const out = h('div', null, h('p', { class: 'summary' }, 'Reading…'));
  fill(main, h('div', { class: 'title' }, h('h1', null, 'Compare ', h('a', { class: 'mono', href: route(['tree', a]) }, a))), out);
  try {
    if (!b) {
      const { run } = await get(`/v1/trees/${encodeURIComponent(a)}/runs/r`, signal);
      const list = await get(`/v1/trees?all=true&n=50&agent=${encodeURIComponent(run.agent)}`, signal);
      fill(out, h('form', {
        class: 'find',
        onsubmit: (e) => { e.preventDefault(); location.hash = route(['diff', a, new FormData(e.target).get('tree').trim()]); },
      }, h('input', { name: 'tree', placeholder: 'Id of the other tree', 'aria-label': 'Id of the other tree', required: true, 'data-find': '' }),
      h('button', { type: 'submit' }, 'Compare')),
      h('ul', { class: 'plain' }, list.trees.filter((t) => t.tree !== a).map((t) => h('li', null, badge(t.status), ' ',
        h('a', { class: 'mono', href: route(['diff', a, t.tree]) }, t.tree), ' ', firstLine(t.task), ' ', h('span', { class: 'dim' }, time(t.began))))));
      return;
    }
    const d = await get(`/v1/trees/${encodeURIComponent(a)}/diff/${encodeURIComponent(b)}`, signal);
    const part = (tree, path, m) => h('div', { class: 'half' }, h('h3', null, h('a', { href: route(['tree', tree, path]) }, `${tree} ${path}`)),
      m ? [h('p', { class: 'dim' }, m.role, m.turn ? `, turn ${m.turn}` : '', ' ', time(m.time)), prose(m.text ?? ''),
        (m.calls ?? []).map((c) => prose(`→ ${c.tool} ${JSON.stringify(c.arguments ?? {}, null, 2)}`, 'code'))] : h('p', { class: 'dim' }, 'ends here'));
    fill(out, d.partings.length === 0 ? h('p', null, `The trees ${a} and ${b} say the same.`)
      : [h('p', null, `They part in ${many(d.partings.length, 'place')}.`),
        d.partings.map((p) => h('div', { class: 'halves' }, part(a, p.path, p.a), part(b, p.path, p.b)))]);
  } catch (e) {
    if (!signal.aborted) fill(out, h('p', { class: 'reason bad' }, e.message));
  }
}
