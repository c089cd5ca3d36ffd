// One run: its facts, its conversation, and the ways to steer it.
import { get, steer } from './api.js';
import { aged, ask, badge, clock, costText, count, facts, fill, firstLine, h, now, prose, route, span, time, tokenText, update, when } from './dom.js';
import { heldCall, heldTurn, person } from './held.js';

// readAge is the time for which the server may answer with an earlier read, in
// milliseconds, and some more.
const readAge = 1100;

// newest is the number of messages that are drawn without being asked for.
const newest = 200;

const pretty = (v) => (typeof v === 'string' ? v : JSON.stringify(v ?? {}, null, 2));

// runPanel shows a run. The caller tells of its line and of events of the tree.
export function runPanel(side, { tree, path, signal, up }) {
  const stop = new AbortController();
  signal.addEventListener('abort', () => stop.abort(), { signal: stop.signal });
  const head = h('div', { class: 'run-head' });
  const held = h('div');
  const talk = h('div', { class: 'talk', role: 'log', 'aria-label': 'Conversation' });
  const at = `/v1/trees/${encodeURIComponent(tree)}`;
  let line = null;
  let drawn = [];
  let nodes = [];
  let from = null;
  let headText = '';
  fill(side, head, held, talk);

  // The head.

  function drawHead() {
    const r = line;
    const over = r.status === 'completed' || r.status === 'failed';
    const parts = path.split('-');
    update(head,
      h('div', { class: 'title' },
        h('button', { type: 'button', class: 'quiet back', onclick: up, title: 'Back to the tree (Esc)' }, '← Tree'),
        h('h2', null, r.tool || r.agent, ' ', h('span', { class: 'mono dim' }, path)), badge(r.status)),
      !over && r.why && h('p', { class: 'reason' }, aged(r.why, r.at ?? now())),
      r.status === 'failed' && h('p', { class: 'reason bad' }, `${r.kind ?? 'failed'}: ${r.error ?? ''}`),
      facts([
        ['worker', r.worker && h('a', { href: route(['workers', r.worker]) }, r.worker)],
        ['model', r.model], ['called', time(r.called)],
        ['took', r.called && span((over ? when(r.ended) : now()) - when(r.called))],
        ['deadline', !over && time(r.deadline)],
        ['turns', r.tool ? '' : `${r.turns}${r.retries ? `, ${r.retries} made again` : ''}`],
        ['tokens', r.tool ? '' : tokenText(r)], ['cost', costText(r)],
        ['called by', parts.length > 2 && h('a', { href: route(['tree', tree, parts.slice(0, -2).join('-')]) }, parts.slice(0, -2).join('-'))],
      ]),
      !over && h('div', { class: 'buttons' },
        !r.tool && h('button', { type: 'button', onclick: mail }, 'Send mail'),
        !r.tool && h('button', { type: 'button', onclick: interrupt }, 'Interrupt'),
        h('button', { type: 'button', class: 'danger', onclick: cancel }, 'Cancel run')));
  }

  async function mail() {
    const v = await ask({
      title: `Mail to ${line.agent} ${path}`, action: 'Send',
      fields: [{ name: 'text', label: 'Text', kind: 'area', required: true }, { name: 'from', label: 'Your name', value: person.name() }],
    });
    if (!v) return;
    person.keep(v.from);
    await steer(tree, 'mail', { path, text: v.text, ...(v.from && { from: v.from }) }, 'The mail is stored. The run reads it before its next turn.');
  }

  async function interrupt() {
    const v = await ask({
      title: `Interrupt ${line.agent} ${path}?`, action: 'Interrupt',
      text: 'The run stops its work and is idle until it gets mail. The runs that it waits for are cancelled.',
    });
    if (v) await steer(tree, 'interrupt', { path }, 'The run is being interrupted.');
  }

  async function cancel() {
    const v = await ask({
      title: `Cancel ${line.agent} ${path}?`, text: 'The run and all runs below it end. This cannot be undone.',
      action: 'Cancel the run', danger: true, fields: [{ name: 'reason', label: 'Reason' }],
    });
    if (v) await steer(tree, 'cancel', { path, reason: v.reason }, 'The run is being cancelled.');
  }

  // What is held.

  let heldKey = '';

  async function drawHeld() {
    const waits = line.status === 'held' || line.why?.includes('held for a person');
    if (!waits) { fill(held); heldKey = ''; return; }
    const all = await get(`/v1/held?tree=${encodeURIComponent(tree)}`, stop.signal);
    const mine = [...all.turns, ...all.calls].filter((x) => x.path === path || x.path.startsWith(`${path}-`));
    const key = JSON.stringify(mine);
    if (key === heldKey) return; // a person may be about to decide
    heldKey = key;
    fill(held, mine.map((x) => (x.key ? heldCall(x, refresh) : heldTurn(x, refresh))));
  }

  // The conversation. A message that was drawn is kept, with what the person
  // has unfolded.

  function drawTalk(messages) {
    if (from === null || from > messages.length) from = Math.max(0, messages.length - newest);
    const texts = messages.slice(from).map((m) => JSON.stringify(m));
    let same = 0;
    while (same < texts.length && texts[same] === drawn[same]) same++;
    const end = side.scrollHeight - side.scrollTop - side.clientHeight < 40 && side.scrollTop > 0;
    for (const n of nodes.slice(same)) n.remove();
    nodes = [...nodes.slice(0, same), ...messages.slice(from + same).map((m) => message(m, tree))];
    talk.append(...nodes.slice(same));
    drawn = texts;
    talk.querySelector('.earlier')?.remove();
    if (from > 0) {
      talk.prepend(h('button', {
        type: 'button', class: 'earlier link',
        onclick: () => { from = Math.max(0, from - newest); drawn = []; for (const n of nodes) n.remove(); nodes = []; drawTalk(messages); },
      }, `${from} earlier messages`));
    }
    if (end) side.scrollTop = side.scrollHeight;
  }

  let busy = false;
  let wanted = false;
  let again = 0;

  // refresh reads the run. The server may answer with a read that is a second
  // old, so a change is read twice.
  async function refresh() {
    clearTimeout(again);
    again = setTimeout(read, readAge);
    await read();
  }

  async function read() {
    if (busy) { wanted = true; return; }
    busy = true;
    try {
      const answer = await get(`${at}/runs/${encodeURIComponent(path)}`, stop.signal);
      drawTalk(answer.messages);
      if (!line) { line = { ...answer.run, at: now() }; drawHead(); }
      await drawHeld();
    } catch (e) {
      if (!stop.signal.aborted && !line) fill(head, h('p', { class: 'reason bad' }, e.message));
    }
    busy = false;
    if (wanted && !stop.signal.aborted) { wanted = false; await read(); }
  }

  read();

  return {
    // run tells of the line of the run.
    run(l) {
      if (!l || stop.signal.aborted) return;
      const before = line;
      line = l;
      const text = JSON.stringify(l) + (l.ended ? '' : Math.floor(now() / 1000));
      if (text === headText) return;
      headText = text;
      drawHead();
      if (before && before.status !== l.status) refresh();
    },
    // event tells of an event of the tree.
    event(e) {
      if (stop.signal.aborted) return;
      const caller = e.path.split('-').slice(0, -2).join('-');
      if (e.path === path || caller === path) refresh();
    },
    close() { clearTimeout(again); stop.abort(); fill(side); },
  };
}

// titles are the names of the roles of messages.
const titles = {
  task: 'Task', system: 'System prompt', user: 'User', assistant: 'Assistant', result: 'Result', mail: 'Mail', verdict: 'Verdict',
  note: 'Note', end: 'End',
};

// sender names the user that the server has proven.
const sender = (m) => (m.by ? ` by ${m.by.user} (${m.by.role})` : '');

// claimed returns a name that an author gives, in quotes if it could look like a
// proven one.
const claimed = (name) => (name.includes('(') ? JSON.stringify(name) : name);

// message draws a message of a conversation.
function message(m, tree) {
  const run = (path) => h('a', { class: 'mono', href: route(['tree', tree, path]) }, path);
  const meta = [
    m.turn && `turn ${m.turn}`, m.model, m.duration_ms && span(m.duration_ms), m.usage && tokenText(m.usage),
    m.retries && `${m.retries} requests made again`, m.worker && `worker ${m.worker}`,
  ].filter(Boolean).join(' · ');
  const top = (...what) => h('div', { class: 'm-head' }, h('b', null, what), ' ', h('span', { class: 'dim' }, meta),
    h('span', { class: 'm-time' }, time(m.time)));
  const text = m.text ?? '';
  const box = (...children) => h('article', { class: `message m-${m.role} ${m.failed ? 'failed' : ''}` }, children);
  const folded = (summary, ...body) => h('details', null, h('summary', null, summary), body);
  switch (m.role) {
    case 'system':
      return box(folded([h('b', null, titles.system), ' ', h('span', { class: 'dim' }, firstLine(text, 80))], prose(text)));
    case 'result': {
      const from = m.from?.startsWith('r') ? run(m.from) : m.from;
      return box(folded([h('b', null, m.failed ? '✗ ' : '✓ ', m.name ?? titles.result), ' ', from, ' ',
        h('span', { class: 'dim' }, [m.kind, m.duration_ms && span(m.duration_ms)].filter(Boolean).join(' '), ' ', firstLine(text, 90))],
      prose(text), h('p', { class: 'dim' }, meta, ' ', clock(m.time))));
    }
    case 'assistant':
      return box(top(titles.assistant), text && prose(text), (m.calls ?? []).map((c) => h('details', { class: 'call' },
        h('summary', null, '→ ', h('b', null, c.tool), ' ', (c.paths ?? []).map((p) => [run(p), ' ']),
          h('span', { class: 'dim' }, firstLine(summaryOf(c.arguments), 90))),
        prose(pretty(c.arguments), 'code'), c.error && h('p', { class: 'bad' }, c.error))));
    case 'mail':
      return box(top(titles.mail, m.from ? ` from ${claimed(m.from)}` : '', sender(m), m.idle ? ', which is idle' : ''), prose(text));
    case 'verdict':
      return box(top(m.decision ?? titles.verdict, m.from ? ` by ${m.from}` : ''), text && prose(text));
    case 'end':
      return box(top(m.failed || m.kind ? `Failed: ${m.kind ?? 'error'}` : titles.end), text && prose(text));
    default:
      return box(top(titles[m.role] ?? m.role, m.role === 'task' && sender(m)), text && prose(text));
  }
}

// summaryOf tells the arguments of a call in a line.
function summaryOf(args) {
  if (typeof args !== 'object' || args === null) return String(args ?? '');
  return Object.entries(args).map(([k, v]) => `${k}: ${typeof v === 'string' ? firstLine(v, 60) : JSON.stringify(v)}`).join(', ');
}
