// Requests to the API of this server.
import { ask, setClock, toast } from './dom.js';

// key is the place of the token in this tab.
const key = 'axe-token';

// Problem is an answer to a request that failed.
export class Problem extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

const headers = () => (sessionStorage.getItem(key) ? { Authorization: `Bearer ${sessionStorage.getItem(key)}` } : {});

// hasToken reports whether requests have a token.
export const hasToken = () => sessionStorage.getItem(key) !== null;

let asking = null;

// login asks the person for a token. Requests that fail together ask once.
function login() {
  asking ??= ask({
    title: 'This server needs a token', text: 'It is kept until this tab is closed.', action: 'Go on',
    fields: [{ name: 'token', label: 'Token', kind: 'password', required: true }],
  }).then((v) => {
    asking = null;
    if (v) sessionStorage.setItem(key, v.token.trim());
    return v !== null;
  });
  return asking;
}

async function problemOf(res) {
  const p = await res.json().catch(() => ({}));
  return new Problem(res.status, p.code ?? '', p.detail ?? `the server answers with status ${res.status}`);
}

// request makes a request, and returns its answer.
async function request(path, options = {}) {
  for (;;) {
    const res = await fetch(path, { cache: 'no-store', ...options, headers: { ...options.headers, ...headers() } });
    if (res.headers.get('Date')) setClock(res.headers.get('Date'));
    if (res.ok) return res;
    if (res.status !== 401 || !(await login())) throw await problemOf(res);
  }
}

// get reads JSON.
export async function get(path, signal) {
  return (await request(path, { signal })).json();
}

// post sends JSON. It returns the answer, or null for one without a body.
export async function post(path, body, more = {}) {
  const res = await request(path, {
    method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json', ...more },
  });
  return res.status === 204 ? null : res.json();
}

// steer sends a message to a tree, and says how that went.
export async function steer(tree, verb, body, told) {
  try {
    await post(`/v1/trees/${encodeURIComponent(tree)}/${verb}`, body);
    toast(told);
    return true;
  } catch (e) {
    toast(e.message, true);
    return false;
  }
}

// download stores the content of a path as a file. A link cannot have a token,
// so the page reads the file itself.
export async function download(path, name) {
  try {
    const url = URL.createObjectURL(await (await request(path)).blob());
    const link = document.createElement('a');
    link.href = url;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  } catch (e) {
    toast(e.message, true);
  }
}

const pause = (ms, signal) => new Promise((resolve) => {
  const id = setTimeout(resolve, ms);
  signal.addEventListener('abort', () => { clearTimeout(id); resolve(); }, { once: true });
});

// visible waits until the person sees this tab.
const visible = (signal) => new Promise((resolve) => {
  const look = () => { if (!document.hidden || signal.aborted) { stop.abort(); resolve(); } };
  const stop = new AbortController();
  document.addEventListener('visibilitychange', look, { signal: stop.signal });
  signal.addEventListener('abort', look, { signal: stop.signal });
  look();
});

// hiddenFor aborts a request when nobody has seen this tab for some time: a
// browser opens only a few connections to one server.
function hiddenFor(ms, abort, signal) {
  let id = 0;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(id);
    if (document.hidden) id = setTimeout(abort, ms);
  }, { signal });
}

// follow reads server-sent events until the event end. A connection that is
// lost is made again, with Last-Event-ID, so that no event comes twice. On gets
// the name and the data of each event, and lost says whether there is no
// connection. A request that is refused ends it with the problem.
export async function follow(path, { signal, on, lost }) {
  let last = '';
  let retry = 2000;
  while (!signal.aborted) {
    await visible(signal);
    const one = new AbortController();
    const stop = () => one.abort();
    signal.addEventListener('abort', stop, { signal: one.signal });
    hiddenFor(60_000, stop, one.signal);
    try {
      const res = await request(path, { signal: one.signal, headers: last ? { 'Last-Event-ID': last } : {} });
      lost(false);
      if (res.status === 204) return;
      for await (const e of parse(res.body)) {
        if (e.retry) retry = Number(e.retry) || retry;
        if (e.id) last = e.id;
        const data = e.event ? JSON.parse(e.data) : null;
        if (e.event === 'problem') throw new Problem(data.status, data.code, data.detail);
        if (e.event) on(e.event, data);
        if (e.event === 'end') return;
      }
    } catch (e) {
      if (signal.aborted) return;
      if (e instanceof Problem && e.status < 500) throw e;
      if (!one.signal.aborted) lost(true);
    } finally {
      one.abort();
    }
    await pause(retry, signal);
  }
}

// parse reads the events of a stream.
async function* parse(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\n\n');
    rest = parts.pop();
    for (const part of parts) {
      const e = {};
      for (const line of part.split('\n')) {
        const colon = line.indexOf(': ');
        if (colon > 0) e[line.slice(0, colon)] = line.slice(colon + 2);
      }
      yield e;
    }
  }
}

// poll calls a function now, and again some time after each end, while the
// person sees this tab. A failure is told above the page until a call succeeds.
export async function poll(fn, ms, signal, tell = trouble) {
  while (!signal.aborted) {
    await visible(signal);
    if (signal.aborted) return;
    try {
      await fn();
      tell('');
    } catch (e) {
      if (signal.aborted) return;
      tell(e instanceof Problem ? e.message : 'The server does not answer. The page tries again.');
    }
    await pause(ms, signal);
  }
}

// trouble shows a line above the page, or hides it.
export function trouble(text) {
  const el = document.getElementById('trouble');
  if (el.textContent !== text) el.textContent = text;
  el.hidden = text === '';
}
