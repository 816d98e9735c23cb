// What works, what does not, and what to do, in sentences above each view.
import { state, seconds, perSecond } from "./store.js";
import { html, nothing, icon, look, plural, count, rate } from "./ui.js";
import { link } from "./route.js";

/**
 * A trouble is a problem that a person should know of.
 * @typedef {{key: string, tone: "bad"|"wait", who: string, what: string, advice: string, href: string, server?: string, warning?: boolean}} Trouble
 */

/** advice says what to do about a server: the fix of the doctor, else what follows from its state. */
export function advice(s) {
  if (s.state === "needs_auth" && s.login?.needed) return 'Press Log in. All clients of this router share the login, unless its entry has "credentials": "user": then it is yours alone.';
  if (s.fix) return sentenceOf(s.fix);
  if (s.node) return `The server is on ${s.node}: look at it there.`;
  switch (s.state) {
    case "failed": return "Open the server to read the last lines of its stderr, correct the entry or the program, then press Restart. The router also tries it again every five minutes, and when one of its tools is called (at most every 15 seconds).";
    case "misconfigured": return "Correct its entry in the configuration file and save it; the edit takes effect at once.";
    case "needs_auth": return 'Give the server a token: "headers": {"Authorization": "Bearer ${TOKEN}"} in its entry.';
    case "self": return "The entry would start a router inside this router. Remove the entry.";
    case "restarting": return "The router tries it again by itself.";
    case "disabled": return s.by_hand ? `The server was stopped by hand. It stays stopped until you press Start, run 'metarouter restart NAME', edit its entry or end the router.` : 'Its entry has "disabled": true.';
    default: return "";
  }
}

/** brief shortens long parentheses in an error, such as the whole PATH, since the advice follows them. */
export const brief = (text) => text.replace(/\([^()]{60,}\)/g, "(…)");

/** firstLine is the first line of an error, which often has lines of stderr below it. */
export const firstLine = (text) => brief(text.split("\n", 1)[0]);

/** where says file:line:column as far as it is known, without the folder. */
export function where(p) {
  const file = p.file.split(/[/\\]/).at(-1);
  return p.line > 0 ? `${file}:${p.line}:${p.column}` : file;
}

/** whatOf says what is wrong at a problem of the configuration, without what to write instead. */
export const whatOf = (p) => p.message.split("; ", 1)[0];

/** whatIsWrong is a server's error, and where in the file it comes from if that is known. */
export function whatIsWrong(s) {
  const p = state.config?.problems?.find((p) => p.server === s.name && p.severity !== "warning");
  if (p && s.state === "misconfigured") return `${where(p)}: ${s.last_error || p.message}`;
  if (s.state === "needs_auth" && s.login?.needed) return `The server needs a login: ${s.login.needed}.`;
  return s.problem ? sentenceOf(s.problem) : s.last_error || p?.message || "";
}

/** sentenceOf begins with a capital. */
const sentenceOf = (text) => text[0].toUpperCase() + text.slice(1);

/** whoRejected says of an edit that is not in use whether it waits or is wrong. */
export const whoRejected = (config) => (config.approve ? "The last edit waits for your approval" : "The last edit is not in use");

/** afterRejection says what to do about an edit that is not in use. */
export const afterRejection = (config) => (config.approve
  ? `Read the file, then run this in a terminal: ${config.approve}`
  : "Correct the file and save it.");

/** troubles lists all problems, the worst first. @returns {Trouble[]} */
export function troubles() {
  const all = [];
  const { config } = state;
  if (config?.rejected) {
    all.push({ key: "rejected", tone: config.approve ? "wait" : "bad", who: whoRejected(config), what: config.rejected,
      advice: `The previous configuration stays in use. ${afterRejection(config)}`, href: link("configuration") });
  }
  const listed = new Set(); // servers that do not work because of their problem
  for (const name of state.order) {
    const s = state.servers.get(name);
    const l = s && look(s);
    if (!s || l.order > 1) continue;
    if (l.tone === "bad") listed.add(name);
    all.push({ key: `server ${name}`, tone: l.tone, who: `${name} ${s.state === "needs_auth" && s.login?.needed ? "needs a login" : sayState[s.state]}`, what: whatIsWrong(s), advice: advice(s),
      href: link("servers", { server: name }), server: name });
  }
  for (const p of config?.problems ?? []) {
    if (listed.has(p.server) && p.severity !== "warning") continue;
    const warning = p.severity === "warning";
    const what = p.fix ? whatOf(p) : p.message;
    all.push({ key: `problem ${where(p)} ${p.message}`, tone: "wait", warning, who: warning ? `Warning: ${where(p)}` : where(p), what: p.server ? `${p.server}: ${what}` : what,
      advice: p.fix ? sentenceOf(p.fix) : "Correct this line and save the file; the rest of the file is in use.", href: link("configuration") });
  }
  const rank = (t) => (t.tone === "bad" ? 0 : t.warning ? 2 : 1);
  return all.sort((a, b) => rank(a) - rank(b));
}

const sayState = { failed: "failed", misconfigured: "is misconfigured", needs_auth: "needs a token", self: "is this router itself", restarting: "is restarting" };

/** tally counts the servers that work, that should work, that start and that are off. */
export function tally() {
  const n = { work: 0, want: 0, off: 0, coming: 0 };
  for (const s of state.servers.values()) {
    const l = look(s);
    if (l.tone === "off") { n.off++; continue; }
    n.want++;
    if (l.tone === "ok") n.work++;
    if (l.tone === "wait") n.coming++;
  }
  return n;
}

/** sentence sums up how many servers work. */
export function sentence() {
  const n = tally();
  if (state.link === "lost") return "The router does not answer";
  if (!state.router) return "Waiting for the router …";
  if (n.want + n.off === 0) return "No server is configured";
  if (n.want === 0) return n.off === 1 ? "The one server is off" : `All ${count(n.off)} servers are off`;
  if (n.work === n.want) return n.want === 1 ? "The one server works" : `All ${count(n.want)} servers work`;
  if (n.work === 0 && n.coming === n.want) return n.want === 1 ? "The one server is starting" : `All ${count(n.want)} servers are starting`;
  return `${n.work === 0 ? "None" : count(n.work)} of ${plural(n.want, "server")} ${n.work === 1 ? "works" : "work"}`;
}

/** lastMinute says how many calls there were while there are none now. */
function lastMinute() {
  const calls = seconds(60).reduce((sum, r) => sum + r.ok + r.failed, 0);
  return `${calls ? plural(calls, "call") : "no calls"} in the last minute`;
}

/** summary is the line below the header. */
export function summary(view) {
  if (state.link === "lost") {
    return html`<section class="summary bad" aria-label="Summary">${icon("cross", "bad")}<p class="sentence"><strong>${sentence()}</strong>
      <span class="first">${state.refused || "It may have ended, or may be starting again"}. The page continues by itself as soon as the router answers.${state.router ? " It shows the last known state below." : ""}</span></p></section>`;
  }
  const all = troubles();
  const bad = all.filter((t) => t.tone === "bad");
  const n = tally();
  const tone = !state.router ? "wait" : bad.length ? "bad" : all.length ? "wait" : n.want === 0 ? "off" : n.work < n.want ? "wait" : "ok";
  const first = view === "servers" ? undefined : all[0]; // there it stands below
  return html`<section class="summary ${tone}" aria-label="Summary">
    ${icon({ ok: "check", bad: "cross", wait: "wait", off: "off" }[tone], tone)}
    <p class="sentence"><strong>${sentence()}</strong>${first
      ? html`<span class="first"><a href=${first.href}>${first.who}</a>${first.what ? html`: ${firstLine(first.what)}` : nothing}${all.length > 1
        ? html` <a class="more" href="#servers">and ${count(all.length - 1)} more</a>` : nothing}</span>` : nothing}</p>
    ${state.router ? html`<ul class="facts">
      ${n.off && n.want ? html`<li>${count(n.off)} off</li>` : nothing}
      <li>${plural(state.catalog?.tools ?? 0, "tool")}</li>
      <li>${perSecond() ? rate(perSecond()) : lastMinute()}</li>
    </ul>` : nothing}
  </section>`;
}
