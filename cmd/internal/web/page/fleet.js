// Agents with their statistics, workers with what they have in hand, and dead
// letters.
import { get, poll, post } from './api.js';
import { ask, costText, count, facts, fill, firstLine, h, many, now, prose, route, span, time, toast, update, when } from './dom.js';

const orders = [['', 'by name'], ['p95', 'slowest first'], ['failed', 'most failures first'], ['tokens', 'most tokens first']];

// agents lists the agents, with counts of the last day.
export function agents(main, { segments, query, signal }) {
  const sort = query.sort ?? '';
  const body = h('tbody');
  const note = h('p', { class: 'summary' }, 'Reading…');
  fill(main,
    h('div', { class: 'title' }, h('h1', null, 'Agents'),
      h('div', { class: 'chips', role: 'group', 'aria-label': 'Order' }, orders.map(([value, label]) =>
        h('a', { href: route(['agents'], { sort: value }), 'aria-current': value === sort ? 'true' : null }, label)))),
    note,
    h('div', { class: 'scroll' }, h('table', null,
      h('thead', null, h('tr', null, ['Agent', 'Served by', 'Runs, 24 h', 'Failed', 'Median', '95 %', 'Tokens', '']
        .map((name, i) => h('th', { scope: 'col', class: i > 1 && i < 7 ? 'num' : '' }, name)))), body)));
  poll(async () => {
    const [list, stats] = await Promise.all([get('/v1/agents', signal), get('/v1/statistics', signal)]);
    const counts = new Map(stats.agents.map((s) => [s.agent, s]));
    const all = list.agents.map((a) => ({ a, s: counts.get(a.name) }));
    for (const s of stats.agents) if (!list.agents.some((a) => a.name === s.agent)) all.push({ a: { name: s.agent, workers: [] }, s });
    const weight = {
      p95: (x) => x.s?.p95_ns ?? -1, failed: (x) => x.s?.failed ?? -1,
      tokens: (x) => (x.s ? x.s.usage.input_tokens + x.s.usage.output_tokens : -1),
    }[sort];
    all.sort((x, y) => (weight ? weight(y) - weight(x) : 0) || x.a.name.localeCompare(y.a.name));
    note.textContent = `${many(all.length, 'agent')}${stats.all ? '' : '; the counts are of the newest 50,000 outcomes'}`;
    update(body, all.map(({ a, s }) => h('tr', { id: `agent-${a.name}`, class: a.name === segments[1] ? 'chosen' : '' },
      h('td', null, h('b', null, a.name), a.model && h('span', { class: 'dim' }, ` ${a.model}`),
        a.description && h('div', { class: 'dim' }, firstLine(a.description)),
        a.sub_agents?.length > 0 && h('div', { class: 'dim' }, 'calls ', a.sub_agents.join(', ')),
        a.problem && h('div', { class: 'bad' }, a.problem)),
      h('td', null, a.workers.length > 0
        ? a.workers.map((w, i) => [i > 0 && ', ', h('a', { href: route(['workers', w]) }, w)])
        : h('span', { class: 'bad' }, 'no worker', a.since && [' since ', time(a.since)],
          a.former?.length > 0 && `; before: ${a.former.join(', ')}`)),
      number('runs', s && count(s.runs)), number('failed', s && count(s.failed), s?.failed ? 'bad' : ''),
      number('median', s && span(s.p50_ns / 1e6)), number('95 %', s && span(s.p95_ns / 1e6)),
      number('tokens', s && [count(s.usage.input_tokens + s.usage.output_tokens),
        s.cost !== undefined && h('div', { class: 'dim' }, costText(s))]),
      h('td', { class: 'links' }, h('a', { href: route(['trees'], { agent: a.name }) }, 'Trees'), ' ',
        h('a', { href: route(['submit', a.name]) }, 'New task')))));
  }, 5000, signal);
}

// number is a cell with a number. A narrow window shows its label.
const number = (label, text, kind = '') => h('td', { class: `num ${kind}`, 'data-label': text ? label : null }, text);

// workers lists the workers, and tells what each has in hand.
export function workers(main, { segments, signal }) {
  const list = h('div', { class: 'cards' }, h('p', { class: 'summary' }, 'Reading…'));
  fill(main, h('div', { class: 'title' }, h('h1', null, 'Workers')), list);
  let shown = false;
  let key = '';
  poll(async () => {
    const all = (await get('/v1/workers', signal)).workers;
    const text = JSON.stringify(all);
    if (text === key || signal.aborted) return;
    key = text;
    update(list, all.length === 0 && h('p', { class: 'summary' }, 'No worker is there. agentd starts one.'),
      all.map((w) => worker(w, w.name === segments[1])));
    if (!shown && segments[1]) list.querySelector('.chosen')?.scrollIntoView({ block: 'start' });
    shown = true;
  }, 2000, signal);
}

function worker(w, chosen) {
  const runs = w.runs ?? [];
  const gone = Boolean(w.ended) || !w.known;
  const state = w.ended ? ['has ended ', time(w.ended)] : !w.known ? 'does not answer' : w.draining ? 'drains' : 'at work';
  return h('article', { class: `card ${chosen ? 'chosen' : ''} ${gone ? 'gone' : ''}`, 'data-worker': w.name },
    h('h3', null, w.name, ' ', h('span', { class: 'dim' }, state)),
    w.trouble && h('p', { class: 'reason bad' }, w.trouble),
    facts([
      ['host', w.host && `${w.host}, process ${w.pid}`], ['since', time(w.since)],
      ['slots', !gone && `${w.slots - w.free} of ${w.slots} taken`],
      ['slots of tools', !gone && w.tool_slots > 0 && `${w.tool_slots - w.free_tools} of ${w.tool_slots} taken`],
      ['agents', (w.agents ?? []).map((a, i) => [i > 0 && ', ', h('a', { href: route(['agents', a]) }, a)])],
    ]),
    !gone && h('div', { class: 'loss' }, h('h4', null, 'If it stops'),
      h('p', null, w.sole?.length > 0
        ? [h('b', { class: 'bad' }, 'No other worker serves '), w.sole.join(', '), '. Their runs wait until one does.']
        : 'Other workers serve all its agents.', ' ',
      runs.length > 0 ? 'No work is lost: other workers go on with these runs, and the requests in flight are made again.' : 'It has no run in hand.')),
    runs.length > 0 && h('table', null,
      h('thead', null, h('tr', null, ['Run', 'Agent', 'Since', 'Does'].map((t) => h('th', { scope: 'col' }, t)))),
      h('tbody', null, runs.map((r) => h('tr', null,
        h('td', null, h('a', { class: 'mono', href: route(['tree', r.tree, r.path]) }, `${r.tree} ${r.path}`)),
        h('td', null, r.agent), h('td', { class: 'num' }, span(now() - when(r.since))),
        h('td', null, r.progress ? `${r.progress.event}, turn ${r.progress.turn}` : ''))))),
    w.more > 0 && h('p', { class: 'dim' }, `and ${many(w.more, 'run')} more`));
}

// letters lists the dead letters.
export function letters(main, { signal }) {
  const list = h('div', { class: 'cards' }, h('p', { class: 'summary' }, 'Reading…'));
  fill(main, h('div', { class: 'title' }, h('h1', null, 'Dead letters'),
    h('p', { class: 'dim' }, 'Messages that could not be carried out, with the reason.')), list);
  let key = '';
  const read = async () => {
    const all = (await get('/v1/dead-letters', signal)).dead_letters;
    const text = JSON.stringify(all);
    if (text === key || signal.aborted) return;
    key = text;
    fill(list, all.length === 0 && h('p', { class: 'summary' }, 'There are no dead letters.'), all.map((l) => letter(l, read, signal)));
  };
  poll(read, 5000, signal);
}

function letter(l, read, signal) {
  const body = h('div');
  async function retry() {
    const v = await ask({
      title: `Retry dead letter ${l.id}?`, text: 'Its task is submitted again, as a new tree.', action: 'Retry',
      fields: l.agent ? [] : [{ name: 'agent', label: 'Agent', required: true }],
    });
    if (!v) return;
    try {
      const { tree } = await post(`/v1/dead-letters/${l.id}/retry`, v.agent ? { agent: v.agent } : {});
      toast(`Tree ${tree} retries it.`);
      location.hash = route(['tree', tree]);
    } catch (e) {
      toast(e.message, true);
      read();
    }
  }
  async function show(e) {
    if (!e.target.open || body.hasChildNodes()) return;
    try {
      const whole = await get(`/v1/dead-letters/${l.id}`, signal);
      fill(body, whole.task && [h('h4', null, 'Task'), prose(whole.task)], whole.context && [h('h4', null, 'Context'), prose(whole.context)],
        whole.body && [h('h4', null, 'Body'), prose(whole.body, 'code')], facts([['subject', whole.subject], ['sequence', whole.seq]]));
    } catch (err) {
      toast(err.message, true);
    }
  }
  return h('article', { class: 'card', 'data-letter': String(l.id) },
    h('h3', null, l.agent ?? 'unknown agent', ' ', l.tree && h('a', { class: 'mono', href: route(['tree', l.tree, l.path ?? 'r']) }, `${l.tree} ${l.path ?? ''}`)),
    h('p', { class: 'reason bad' }, l.reason),
    facts([['number', l.id], ['stored', time(l.time)], ['retried by', l.retried && h('a', { class: 'mono', href: route(['tree', l.retried]) }, l.retried)]]),
    h('details', { ontoggle: show }, h('summary', null, 'Message'), body),
    h('div', { class: 'buttons' }, h('button', { type: 'button', class: 'primary', onclick: retry }, 'Retry')));
}
