// What waits for a person: held turns, and held calls of tools.
import { get, poll, steer } from './api.js';
import { ask, control, facts, fill, h, many, prose, route, time, toast, web } from './dom.js';

// person is the name under which decisions are recorded.
export const person = {
  name: () => localStorage.getItem('axe-name') ?? '',
  keep: (name) => localStorage.setItem('axe-name', name ?? ''),
};

const byField = () => ({ name: 'by', label: 'Your name, for the record', value: person.name() });

// place names the run of something held.
const place = (x) => h('a', { href: route(['tree', x.tree, x.path]) }, h('b', null, x.agent), ' ', h('span', { class: 'mono' }, `${x.tree} ${x.path}`));

// argumentsOf lists the arguments of a call.
const argumentsOf = (args) => h('dl', { class: 'arguments' }, Object.entries(args ?? {}).map(([name, value]) =>
  h('div', null, h('dt', null, name), h('dd', null, prose(String(value), 'code')))));

// heldTurn shows a held turn with the ways to decide. Done is called after a
// decision.
export function heldTurn(t, done) {
  const decide = async (verb, more, told) => {
    const body = { path: t.path, turn: t.turn, ...more };
    if (!body.by) delete body.by;
    if (await steer(t.tree, verb, body, told)) done();
  };
  const changeable = (t.calls ?? []).filter((c) => c.takes_arguments);

  async function approve() {
    let raw = {};
    if (changeable.length > 0) {
      raw = await callsOf(t).catch((e) => { toast(e.message, true); return {}; });
    }
    const v = await ask({
      title: 'Approve the turn', text: `${t.agent} carries out ${many((t.calls ?? []).length, 'call')}.`, action: 'Approve',
      fields: [byField(), ...changeable.filter((c) => raw[c.call]).map((c) => ({
        name: `call-${c.call}`, label: `Arguments of ${c.tool}`, kind: 'area', rows: 6, value: JSON.stringify(raw[c.call], null, 2),
      }))],
    });
    if (!v) return;
    person.keep(v.by);
    const changed = {};
    try {
      for (const c of changeable) {
        const text = v[`call-${c.call}`];
        if (text && JSON.stringify(JSON.parse(text)) !== JSON.stringify(raw[c.call])) changed[c.call] = JSON.parse(text);
      }
    } catch (e) {
      toast(`The arguments must be a JSON object: ${e.message}`, true);
      return;
    }
    await decide('approve', { by: v.by, ...(Object.keys(changed).length > 0 && { arguments: changed }) }, 'The turn is approved.');
  }

  async function deny() {
    const v = await ask({
      title: 'Deny the turn', text: 'Its calls take no effect. The run reads the reason, and goes on.', action: 'Deny', danger: true,
      fields: [{ name: 'reason', label: 'Reason', kind: 'area', rows: 3 }, byField()],
    });
    if (!v) return;
    person.keep(v.by);
    await decide('deny', { by: v.by, ...(v.reason && { reason: v.reason }) }, 'The turn is denied.');
  }

  return h('article', { class: 'card held', 'data-held': `${t.tree} ${t.path}` },
    h('h3', null, `Turn ${t.turn} of `, place(t)),
    h('p', { class: 'reason' }, t.why),
    t.said && prose(t.said),
    (t.calls ?? []).map((c) => h('div', { class: 'held-call' }, h('b', null, '→ ', c.tool), argumentsOf(c.arguments))),
    facts([['held since', time(t.since)], ['until', time(t.until)], ['supervisor', t.supervisor]]),
    h('div', { class: 'buttons' },
      h('button', { type: 'button', class: 'primary', onclick: approve }, 'Approve'),
      h('button', { type: 'button', class: 'danger', onclick: deny }, 'Deny')));
}

// callsOf reads the arguments of the calls of a held turn, as the model wrote
// them, by the number of the call.
async function callsOf(t) {
  const { messages } = await get(`/v1/trees/${encodeURIComponent(t.tree)}/runs/${encodeURIComponent(t.path)}`);
  const answer = messages.findLast((m) => m.role === 'assistant' && m.turn === t.turn);
  return Object.fromEntries((answer?.calls ?? []).map((c, i) => [i, c.arguments ?? {}]));
}

// heldCall shows a held call of a tool with the ways to settle it.
export function heldCall(c, done) {
  const settle = async (body, told) => {
    if (!body.by) delete body.by;
    if (await steer(c.tree, 'settle', { path: c.path, ...body }, told)) done();
  };
  const asked = (as, title, label, told, danger) => async () => {
    const v = await ask({
      title, action: title, danger,
      fields: [...(label ? [{ name: 'text', label, kind: 'area', rows: 4, required: as === 'done' }] : []), byField()],
    });
    if (!v) return;
    person.keep(v.by);
    await settle({ as, by: v.by, ...(v.text && { text: v.text }) }, told);
  };
  const buttons = c.form
    ? [h('button', { type: 'button', class: 'primary', onclick: () => answer(c, settle) }, 'Answer'),
      h('button', { type: 'button', class: 'danger', onclick: asked('decline', 'Decline', '', 'The form is declined.', true) }, 'Decline')]
    : [h('button', { type: 'button', class: 'primary', onclick: asked('done', 'It is done', 'Its result', 'The call is settled as done.') }, 'It is done'),
      h('button', { type: 'button', onclick: asked('again', 'Make it again', '', 'The call is made again.') }, 'Make it again'),
      h('button', { type: 'button', class: 'danger', onclick: asked('fail', 'It has failed', 'Reason', 'The call is settled as failed.', true) }, 'It has failed')];
  return h('article', { class: 'card held', 'data-held': `${c.tree} ${c.path}` },
    h('h3', null, `${c.form ? 'Form' : 'Call'} of ${c.tool}, `, place(c)),
    h('p', { class: 'reason' }, c.why), argumentsOf(c.arguments),
    facts([['held since', time(c.since)], ['until', time(c.until)], ['begun by worker', c.worker], ['begun', time(c.began)]]),
    h('div', { class: 'buttons' }, buttons));
}

// answer asks the questions of a form.
async function answer(c, settle) {
  const fields = [];
  const parts = [];
  for (const q of c.form.questions) {
    const properties = Object.entries(q.schema?.properties ?? {});
    if (properties.length === 0) parts.push([q, null, fields.push({ name: q.key, label: `${q.text} (a JSON object)`, kind: 'area', value: '{}' })]);
    for (const [name, p] of properties) {
      const kind = p.enum ? 'select' : { boolean: 'check', integer: 'number', number: 'number' }[p.type] ?? 'text';
      parts.push([q, name, fields.push({
        name: `${q.key}/${name}`, label: p.title ?? name, hint: p.description, kind, value: p.default ?? '',
        choices: p.enum?.map((v) => [String(v)]), required: kind !== 'check' && q.schema.required?.includes(name),
      }), p]);
    }
  }
  const extra = c.form.questions.map((q) => h('p', null, q.text,
    q.url && [' ', web(q.url) ? h('a', { href: web(q.url), rel: 'noreferrer noopener', target: '_blank' }, q.url) : q.url]));
  const v = await ask({ title: `Answer to ${c.tool}`, action: 'Send', extra, fields: [...fields, byField()] });
  if (!v) return;
  person.keep(v.by);
  const answers = {};
  try {
    for (const [q, name, , p] of parts) {
      if (name === null) { answers[q.key] = JSON.parse(v[q.key]); continue; }
      answers[q.key] ??= {};
      const text = v[`${q.key}/${name}`];
      if (text === '' || text === undefined) continue;
      answers[q.key][name] = p.type === 'integer' || p.type === 'number' ? Number(text) : text;
    }
  } catch (e) {
    toast(`The answer must be a JSON object: ${e.message}`, true);
    return;
  }
  await settle({ as: 'answer', by: v.by, attempt: c.form.id, answers }, 'The answer is stored.');
}

// held shows all that waits for a person.
export function held(main, { signal }) {
  const list = h('div', { class: 'cards' }, h('p', { class: 'summary' }, 'Reading…'));
  fill(main, h('div', { class: 'title' }, h('h1', null, 'Held for a person')), list);
  let key = '';
  const read = async () => {
    const all = await get('/v1/held', signal);
    const text = JSON.stringify(all);
    if (text === key || signal.aborted) return; // what a person reads stays
    key = text;
    fill(list, all.turns.length + all.calls.length === 0 && h('p', { class: 'summary' }, 'Nothing waits for a person.'),
      all.turns.map((t) => heldTurn(t, read)), all.calls.map((c) => heldCall(c, read)));
  };
  poll(read, 2000, signal);
}
