// The list of trees, with filters.
import { get, poll } from './api.js';
import { badge, costText, count, fill, firstLine, h, many, now, route, span, time, tokens, when } from './dom.js';
import { Rows } from './rows.js';

// pageSize is the number of trees that one request reads.
const pageSize = 100;

const filters = [
  ['All', {}], ['At work', { work: 'true' }], ['Queued', { status: 'queued' }], ['Running', { status: 'running' }],
  ['Waiting', { status: 'waiting' }], ['Held', { status: 'held' }], ['Failed', { status: 'failed' }],
  ['Completed', { status: 'completed' }],
];

const ages = [['', 'any time'], ['1h', 'the last hour'], ['24h', 'the last day'], ['168h', 'the last week']];

// trees shows the list. The query has the filters, so that a link has them too.
export function trees(main, { query, signal }) {
  const { status = '', work = '', agent = '', since = '' } = query;
  const all = status || work ? '' : 'true';
  const go = (change) => { location.hash = route(['trees'], { status, work, agent, since, ...change }); };
  const known = h('datalist', { id: 'agent-names' });
  const summary = h('p', { class: 'summary', role: 'status' }, 'Reading…');
  const older = h('button', { type: 'button', class: 'older', hidden: true, onclick: () => more() }, 'Older trees');
  const rows = new Rows({
    role: 'listbox', label: 'Trees', key: (t) => t.tree, draw: treeRow,
    open: (t) => { location.hash = route(['tree', t.tree]); },
  });
  fill(main,
    h('div', { class: 'bar' },
      h('div', { class: 'chips', role: 'group', 'aria-label': 'Status' }, filters.map(([name, f]) => h('a', {
        href: route(['trees'], { agent, since, ...f }),
        'aria-current': (f.status ?? '') === status && (f.work ?? '') === work ? 'true' : null,
      }, name))),
      h('form', { class: 'find', onsubmit: (e) => { e.preventDefault(); find(new FormData(e.target)); } },
        h('input', { name: 'agent', placeholder: 'Agent', 'aria-label': 'Agent', value: agent, list: 'agent-names', 'data-find': '' }),
        known,
        h('select', { name: 'since', 'aria-label': 'Began in', onchange: (e) => go({ since: e.target.value }) },
          ages.map(([value, label]) => h('option', { value, selected: value === since }, label))),
        h('input', { name: 'tree', placeholder: 'Id of a tree', 'aria-label': 'Id of a tree' }),
        h('button', { type: 'submit' }, 'Show'))),
    summary,
    h('div', { class: 'tree-head row-grid', 'aria-hidden': 'true' }, ['Status', 'Tree', 'Task', 'Runs', 'Tokens', 'Took', 'Began']
      .map((name) => h('span', null, name))),
    rows.el, older);

  function find(form) {
    const id = form.get('tree').trim();
    if (id) location.hash = route(['tree', id]);
    else go({ agent: form.get('agent').trim() });
  }

  let newest = [];
  const rest = [];
  let next = '';
  const query_ = () => new URLSearchParams(
    Object.entries({ status, all, agent, since, n: String(pageSize) }).filter(([, v]) => v));

  function draw() {
    const ids = new Set(newest.map((t) => t.tree));
    const list = [...newest, ...rest.filter((t) => !ids.has(t.tree))];
    rows.set(list);
    older.hidden = !next;
    summary.textContent = list.length === 0
      ? (status || work || agent || since ? 'No tree has these properties.' : 'There are no trees yet.')
      : `${many(list.length, 'tree')}${next ? ', and older ones' : ''}`;
  }

  async function more() {
    const q = query_();
    q.set('before', next);
    const page = await get(`/v1/trees?${q}`, signal);
    rest.push(...page.trees);
    next = page.next ?? '';
    draw();
  }

  poll(async () => {
    const page = await get(`/v1/trees?${query_()}`, signal);
    if (signal.aborted) return;
    newest = page.trees;
    if (rest.length === 0) next = page.next ?? '';
    draw();
  }, 2000, signal);
  get('/v1/agents', signal).then((list) => fill(known, list.agents.map((a) => h('option', { value: a.name }))), () => {});
  rows.el.focus({ preventScroll: true });
  signal.addEventListener('abort', () => rows.close());
}

// treeRow is a row of the list.
function treeRow(t) {
  const ended = when(t.ended);
  const took = (Number.isNaN(ended) ? now() : ended) - when(t.began);
  const why = t.status === 'failed' ? `${t.kind ? `${t.kind}: ` : ''}${t.error ?? ''}` : t.waits_for ?? '';
  return h('a', { class: 'row-grid tree-row', href: route(['tree', t.tree]), tabindex: '-1' },
    h('span', { class: 'c-status' }, badge(t.status)),
    h('span', { class: 'c-tree' }, h('b', null, t.agent), ' ', h('span', { class: 'dim mono' }, t.tree)),
    h('span', { class: 'c-task' }, h('span', { class: 'cut' }, firstLine(t.task)),
      why && h('span', { class: `cut small ${t.status === 'failed' ? 'bad' : 'why'}` }, firstLine(why, 240))),
    h('span', { class: 'c-runs num' }, `${t.done}/${t.runs}`),
    h('span', { class: 'c-tokens num' }, count(tokens(t)), t.cost !== undefined && h('span', { class: 'cut small dim' }, costText(t))),
    h('span', { class: 'c-took num' }, span(took)),
    h('span', { class: 'c-began num dim' }, time(t.began)));
}
