// What the page knows: one object, which the stream of events keeps current. Views read
// it, and are drawn again, at most once a frame, when it has changed.

/**
 * The shapes of servers, calls and the rest are those of cmd/metarouter/internal/admin/api.go and answers.go.
 * @typedef {object} State
 * @property {"connecting"|"live"|"lost"|"asleep"} link
 * @property {string} refused while the link is lost, why; "" if nobody says
 * @property {number} ahead by how many ms the router's clock is ahead of ours
 * @property {object|undefined} router
 * @property {string[]} order
 * @property {Map<string, object>} servers
 * @property {object[]} calls the newest first; {skipped: n} stands for n that are not told
 * @property {Map<number, object>} rates by second
 * @property {object|undefined} catalog
 * @property {number} catalogs how often the catalog has changed
 * @property {object|undefined} config
 * @property {object|undefined} clients
 * @property {object[]|undefined} approvals the calls that wait, the oldest first
 */

export const maxCalls = 200;
export const ratesKept = 300; // seconds

/** @type {State} */
export const state = {
  link: "connecting", refused: "", ahead: 0, router: undefined, order: [], servers: new Map(), calls: [],
  rates: new Map(), catalog: undefined, catalogs: 0, config: undefined, clients: undefined, approvals: undefined,
};

let draw = () => {};
let asked = false;

/** changed has the page drawn again in the next frame. */
export function changed() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); });
}

/** drawnBy says what draws the page. */
export function drawnBy(f) { draw = f; changed(); }

/** Called with the servers that have changed, each as it was and as it is. */
export const watchers = [];

/** Called with the calls that began to wait for an approval. */
export const askers = [];

/** take makes an update part of the state. */
export function take(u) {
  if (u.full) {
    Object.assign(state, { order: [], servers: new Map(), calls: [], rates: new Map() });
  }
  state.ahead = new Date(u.now) - Date.now();
  for (const key of ["router", "config", "clients"]) if (u[key]) state[key] = u[key];
  if (u.catalog) { state.catalog = u.catalog; state.catalogs++; }
  if (u.approvals) {
    const before = new Set(state.approvals?.map((p) => p.id));
    const fresh = state.approvals ? u.approvals.filter((p) => !before.has(p.id)) : [];
    state.approvals = u.approvals;
    for (const f of askers) f(fresh);
  }
  if (u.servers) {
    const news = u.servers.filter((s) => state.servers.has(s.name)).map((s) => [state.servers.get(s.name), s]);
    state.order = u.servers.map((s) => s.name);
    state.servers = new Map(u.servers.map((s) => [s.name, s]));
    if (!u.full) for (const f of watchers) f(news);
  }
  if (u.calls?.length || u.skipped) {
    const fresh = [...(u.calls ?? [])].reverse();
    if (u.skipped) fresh.push({ seq: `skipped-${fresh[0]?.seq ?? u.now}`, skipped: u.skipped });
    state.calls = [...fresh, ...state.calls].slice(0, maxCalls);
  }
  const tally = (at, failed, n = 1) => {
    const r = state.rates.get(at) ?? { t: at, ok: 0, failed: 0 };
    r[failed ? "failed" : "ok"] += n;
    state.rates.set(at, r);
  };
  for (const c of u.calls ?? []) tally(Math.floor((Date.parse(c.time) + c.ms) / 1000), c.outcome !== "ok");
  if (u.skipped) tally(Math.floor(now() / 1000), false, u.skipped); // how they ended is not told
  const newest = Math.floor(now() / 1000) + 5; // beyond that are those from before the clock was set back
  for (const t of state.rates.keys()) if (t > newest || t < newest - ratesKept - 10) state.rates.delete(t);
  changed();
}

/** now is the time by the router's clock. */
export const now = () => Date.now() + state.ahead;

/** seconds returns the last n seconds that are over, the oldest first, with none missing. */
export function seconds(n) {
  const last = Math.floor(now() / 1000) - 2; // what comes later may be on its way
  return Array.from({ length: n }, (_, i) => {
    const t = last - n + 1 + i;
    return state.rates.get(t) ?? { t, ok: 0, failed: 0 };
  });
}

/** perSecond is the mean rate of calls of the last 10 seconds. */
export function perSecond() {
  return seconds(10).reduce((sum, r) => sum + r.ok + r.failed, 0) / 10;
}

const bounds = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000]; // ms

/** latency counts the calls that the page has by how long they took: counts[i] took less than bounds[i]. The last count has all longer ones. */
export function latency() {
  const all = state.calls.filter((c) => !c.skipped).map((c) => c.ms).sort((a, b) => a - b);
  const counts = Array(bounds.length + 1).fill(0);
  for (const ms of all) counts[(bounds.findIndex((b) => ms < b) + counts.length) % counts.length]++;
  const quantile = (share) => all[Math.ceil(share * all.length) - 1] ?? 0;
  return { bounds, counts, p50: quantile(0.5), p95: quantile(0.95), p99: quantile(0.99) };
}

/** latenciesOf returns the durations of the last calls that a server answered, ms, the oldest first. */
export const latenciesOf = (server) => state.calls
  .filter((c) => !c.skipped && (c.answered ? c.answered.startsWith(`${server}:`) : c.server === server)).slice(0, 40).map((c) => c.ms).reverse();

const longestWait = 15_000;
const hiddenFor = 30_000;

/** connect listens to the router for good: what is lost is tried again. */
export function connect() {
  let stream, again, wait = 1000, hidden;

  const open = () => {
    clearTimeout(again);
    stream?.close();
    stream = new EventSource("dashboard/events");
    stream.addEventListener("state", (event) => {
      wait = 1000;
      state.link = "live";
      take(JSON.parse(event.data));
    });
    stream.onerror = lost;
  };
  // EventSource gives up at some errors and tries others again by itself, without a
  // status: we do it alone, and ask for the status.
  const lost = async () => {
    stream.close();
    state.link = "lost";
    changed();
    again = setTimeout(open, wait * (0.75 + Math.random() / 2));
    wait = Math.min(wait * 2, longestWait);
    try {
      const stop = new AbortController();
      const probe = await fetch("dashboard/events", { cache: "no-store", signal: stop.signal });
      if (probe.status === 401) location.reload(); // the page to log in is there
      state.refused = probe.ok ? "" : saidIn(await probe.text()).slice(0, 300);
      stop.abort();
    } catch {
      state.refused = "";
    }
    changed();
  };
  // A hidden page costs the router nothing.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) {
      hidden = setTimeout(() => { clearTimeout(again); stream.close(); state.link = "asleep"; changed(); }, hiddenFor);
    } else if (state.link === "asleep") {
      state.link = "connecting";
      open();
    }
  });
  setInterval(() => { if (state.link === "live" && !document.hidden) changed(); }, 1000); // time goes by where nothing happens
  open();
}

/** saidIn is the sentence of a refusal, or the whole text where something else has answered. */
function saidIn(text) {
  try {
    const { error } = JSON.parse(text);
    return error?.message ?? error ?? "";
  } catch { return text.trim(); }
}

/** A refusal is the router's "no" to a request: its message is a sentence. */
export class Refusal extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

/**
 * ask sends a request to the router and returns the text of its answer.
 * @param {string} path
 * @param {string} [body] JSON; with it the request is a POST
 */
export async function ask(path, body, signal) {
  let response;
  try {
    response = await fetch(path, body === undefined
      ? { signal, cache: "no-store" }
      : { signal, method: "POST", body, headers: { "Content-Type": "application/json" }, credentials: "same-origin" });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Refusal(0, "The router does not answer.");
  }
  const text = await response.text();
  if (response.status === 401) location.reload();
  if (response.ok) return text;
  throw new Refusal(response.status, saidIn(text) || `The router refuses: ${response.status}.`);
}

/** act does something to a server: restart, stop, start, seen, login or logout. It resolves to the answer as JSON. */
export const act = (server, action, body = {}) => ask(`dashboard/servers/${encodeURIComponent(server)}/${action}`, JSON.stringify(body));
