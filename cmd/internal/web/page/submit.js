// A new task for an agent.
import { get, post } from './api.js';
import { fill, h, route, toast } from './dom.js';

// submit shows a form for a task. The task of a tree that is submitted again is
// in the storage of this tab.
export function submit(main, { segments, query, signal }) {
  const again = query.again ? sessionStorage.getItem('axe-task') ?? '' : '';
  const names = h('datalist', { id: 'submit-agents' });
  // One form is one tree, however often its button is pressed.
  const key = [...crypto.getRandomValues(new Uint8Array(12))].map((b) => b.toString(36).padStart(2, '0')).join('');
  const button = h('button', { type: 'submit', class: 'primary' }, 'Submit');
  const bound = (name, label) => h('label', null, h('span', null, label), h('input', { name, type: 'number', min: '1', max: '1000000000' }));

  async function send(e) {
    e.preventDefault();
    const f = new FormData(e.target);
    const limits = Object.fromEntries(['max_agents', 'max_turns', 'max_tokens', 'max_tool_calls']
      .filter((n) => f.get(n)).map((n) => [n, Number(f.get(n))]));
    button.disabled = true;
    try {
      const { tree } = await post(`/v1/agents/${encodeURIComponent(f.get('agent').trim())}/tasks`, {
        task: f.get('task'), ...(f.get('timeout') && { timeout: f.get('timeout') }), ...(Object.keys(limits).length > 0 && { limits }),
      }, { 'Idempotency-Key': key });
      location.hash = route(['tree', tree]);
    } catch (err) {
      toast(err.message, true);
      button.disabled = false;
    }
  }

  const agent = h('input', { name: 'agent', required: true, value: segments[1] ?? '', list: 'submit-agents', autocomplete: 'off' });
  const task = h('textarea', { name: 'task', required: true, rows: 12, value: again });
  fill(main, h('form', { class: 'sheet', onsubmit: send },
    h('h1', null, 'New task'),
    query.again && h('p', { class: 'dim' }, 'The task of tree ', h('a', { class: 'mono', href: route(['tree', query.again]) }, query.again),
      ', as a new tree.'),
    h('label', null, h('span', null, 'Agent'), agent), names,
    h('label', null, h('span', null, 'Task'), task),
    h('details', null, h('summary', null, 'Bounds on the whole tree'),
      h('label', null, h('span', null, 'Timeout, for example 10m'), h('input', { name: 'timeout', autocomplete: 'off' })),
      bound('max_agents', 'Most runs'), bound('max_turns', 'Most turns'), bound('max_tokens', 'Most tokens'),
      bound('max_tool_calls', 'Most tool calls')),
    h('div', { class: 'buttons' }, button)));
  (segments[1] ? task : agent).focus();
  get('/v1/agents', signal).then((list) => fill(names, list.agents.map((a) => h('option', { value: a.name }, a.description))), () => {});
}
