// Small things that all views draw with: icons, numbers as words, badges, notices, and
// the question before something happens.
import { html, svg, nothing, render } from "./vendor/lit-html/lit-html.js";

export { html, svg, nothing };

const shapes = {
  check: svg`<circle cx="8" cy="8" r="7" fill="currentColor"/><path class="cut" d="M4.8 8.3 7 10.5l4.2-4.8"/>`,
  cross: svg`<path fill="currentColor" d="M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1z"/><path class="cut" d="m5.6 5.6 4.8 4.8m0-4.8-4.8 4.8"/>`,
  warn: svg`<path fill="currentColor" d="M8 1.2 15.4 14a.6.6 0 0 1-.5 1H1.1a.6.6 0 0 1-.5-1z"/><path class="cut" d="M8 6v4m0 2.2v.1"/>`,
  wait: svg`<circle class="line faint" cx="8" cy="8" r="6"/><path class="line" d="M8 2a6 6 0 0 1 6 6"/>`,
  moon: svg`<path fill="currentColor" d="M6 1.6A6.7 6.7 0 1 0 14.4 10 5.6 5.6 0 0 1 6 1.6z"/>`,
  off: svg`<circle class="line" cx="8" cy="8" r="6.2"/><path class="line" d="M5.2 8h5.6"/>`,
  key: svg`<circle class="line" cx="5" cy="8" r="3.2"/><path class="line" d="M8.2 8H15m-2 0v2.8M10.6 8v2"/>`,
  loop: svg`<path class="line" d="M13.5 8a5.5 5.5 0 1 1-2-4.2M13.6 1.6v3h-3"/>`,
  eye: svg`<path class="line" d="M1 8s2.6-4.6 7-4.6S15 8 15 8s-2.6 4.6-7 4.6S1 8 1 8z"/><circle cx="8" cy="8" r="2" fill="currentColor"/>`,
  globe: svg`<circle class="line" cx="8" cy="8" r="6.3"/><path class="line" d="M1.9 8h12.2M8 1.7c-4 4-4 8.6 0 12.6 4-4 4-8.6 0-12.6z"/>`,
  repeat: svg`<path class="line" d="M3 8V6.5A2.5 2.5 0 0 1 5.5 4H13m-2.5-2.5L13 4l-2.5 2.5M13 8v1.5A2.5 2.5 0 0 1 10.5 12H3m2.5-2.5L3 12l2.5 2.5"/>`,
  servers: svg`<rect class="line" x="1.8" y="2" width="12.4" height="5" rx="1.5"/><rect class="line" x="1.8" y="9" width="12.4" height="5" rx="1.5"/><path class="line" d="M4.5 4.5h.1M4.5 11.5h.1"/>`,
  tools: svg`<circle class="line" cx="7" cy="7" r="4.7"/><path class="line" d="m10.6 10.6 3.6 3.6"/>`,
  calls: svg`<path class="line" d="M1 8.5h3l2-5.5 3.5 10 2-4.5H15"/>`,
  approvals: svg`<path class="line" d="M8 1.5 13.5 3.5v4c0 3.4-2.3 5.8-5.5 7-3.2-1.2-5.5-3.6-5.5-7v-4z"/><path class="line" d="m5.6 7.9 1.8 1.8 3.2-3.4"/>`,
  clients: svg`<circle class="line" cx="8" cy="5" r="3"/><path class="line" d="M2.2 14.2a5.8 5.8 0 0 1 11.6 0"/>`,
  configuration: svg`<path class="line" d="M1.5 4.5h7m4 0h2M1.5 11.5h2m4 0h7"/><circle class="line" cx="10.5" cy="4.5" r="2"/><circle class="line" cx="5.5" cy="11.5" r="2"/>`,
  sun: svg`<circle cx="8" cy="8" r="3.2" fill="currentColor"/><path class="line" d="M8 1v1.5m0 11V15M1 8h1.5m11 0H15M3 3l1.1 1.1m7.8 7.8L13 13m0-10-1.1 1.1M4.1 11.9 3 13"/>`,
  auto: svg`<circle class="line" cx="8" cy="8" r="6.2"/><path fill="currentColor" d="M8 1.8a6.2 6.2 0 0 1 0 12.4z"/>`,
  down: svg`<path class="line" d="m4 6 4 4 4-4"/>`,
  left: svg`<path class="line" d="M10 3 5 8l5 5"/>`,
  copy: svg`<rect class="line" x="5" y="5" width="9" height="9" rx="1.5"/><path class="line" d="M11 2.5H4A1.5 1.5 0 0 0 2.5 4v7"/>`,
  pause: svg`<path class="line" d="M5.5 3.5v9m5-9v9"/>`,
  play: svg`<path fill="currentColor" d="M4.5 2.5v11l9-5.5z"/>`,
};

/** icon draws a shape. Its meaning must stand next to it as text. */
export const icon = (name, more = "") =>
  html`<svg class="icon ${more}" viewBox="0 0 16 16" aria-hidden="true">${shapes[name]}</svg>`;

/** The word for each state of a server, its look, and its place in the order. */
export const states = {
  failed: { word: "failed", tone: "bad", icon: "cross", order: 0 },
  misconfigured: { word: "misconfigured", tone: "bad", icon: "warn", order: 0 },
  needs_auth: { word: "needs a token", tone: "bad", icon: "key", order: 0 },
  self: { word: "is this router", tone: "bad", icon: "loop", order: 0 },
  restarting: { word: "restarting", tone: "wait", icon: "wait", order: 1 },
  starting: { word: "starting", tone: "wait", icon: "wait", order: 2 },
  stopping: { word: "stopping", tone: "wait", icon: "wait", order: 2 },
  ready: { word: "ready", tone: "ok", icon: "check", order: 2 },
  idle: { word: "idle", tone: "ok", icon: "moon", order: 2 },
  stopped: { word: "stopped", tone: "off", icon: "off", order: 3 },
  disabled: { word: "disabled", tone: "off", icon: "off", order: 3 },
};

/** look returns the word and the look of a server's state. */
export function look(server) {
  const l = states[server.state] ?? { word: server.state, tone: "off", icon: "off", order: 2 };
  if (server.state === "needs_auth" && server.login?.needed) return { ...l, word: "needs a login" };
  return server.state === "disabled" && server.by_hand ? { ...l, word: "stopped by hand" } : l;
}

export const count = (n) => n.toLocaleString("en");
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** duration formats milliseconds in three digits. */
export function duration(ms) {
  if (ms < 1) return "< 1 ms";
  if (ms < 10) return `${ms.toFixed(1).replace(/\.0$/, "")} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.floor(ms / 1000) % 60} s`;
}

/** size formats bytes in three digits. */
export function size(bytes) {
  for (const unit of ["B", "KB", "MB"]) {
    if (bytes < 1000) return `${bytes < 10 && unit !== "B" ? bytes.toFixed(1) : Math.round(bytes)} ${unit}`;
    bytes /= 1024;
  }
  return `${bytes.toFixed(1)} GB`;
}

/** era says which revision of MCP is spoken, and whether it is an older one. */
export const era = (name, revision) => ({ legacy: `older revision ${revision}`, modern: revision }[name] ?? revision);

export const percent = (share) => `${Math.round(share * 100)}%`;

/** rate formats calls per second. */
export const rate = (n) => (n === 0 ? "no calls" : n < 0.1 ? "< 0.1 calls/s" : `${n < 10 ? n.toFixed(1) : Math.round(n)} calls/s`);

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** time is an hour of today, or a whole date. */
export function time(at) {
  const d = new Date(at);
  const today = d.toDateString() === new Date().toDateString();
  return html`<time datetime=${d.toISOString()} title=${full.format(d)}>${today ? clock.format(d) : full.format(d)}</time>`;
}

/** ago is the time since a moment, by the router's clock. */
export function ago(at, now) {
  const s = Math.max(0, Math.round((now - new Date(at)) / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return plural(Math.floor(s / 86400), "day");
}

/** badge is a word for a state, with its icon and a hover text. */
export const badge = (tone, shape, word, title) => html`<span class="badge ${tone}" title=${title ?? nothing}>${shape ? icon(shape) : nothing}${word}</span>`;

/** The annotations of tools that a person wants to know before a call. */
const hints = [
  ["readOnlyHint", "ok", "eye", "only reads", "The server declares that this tool changes nothing."],
  ["destructiveHint", "bad", "warn", "may destroy", "The server declares that this tool may delete or overwrite something."],
  ["idempotentHint", "", "repeat", "repeatable", "The server declares that a repeated call with the same arguments has no further effect."],
  ["openWorldHint", "", "globe", "outside world", "The server declares that this tool works with things outside the server, such as the web."],
];

/** marks are the badges of a tool: its annotations and its capability tags. */
export function marks(t) {
  return html`${t.doubt ? badge("bad", "warn", "doubted", `The server declares that this tool does no harm, but ${t.doubt}.`) : nothing}${t.changed ? badge("wait", "warn", "changed", "The definition of this tool changed since you last looked.") : nothing}${hints.filter(([k]) => t.hints?.[k] === true && !(k === "destructiveHint" && t.hints.readOnlyHint))
    .map(([, tone, shape, word, title]) => badge(tone, shape, word, title))}${(t.capabilities ?? []).map((c) => badge("tag", "", c, `This tool has the capability tag “${c}”. A search can prefer tools with a tag: metarouter search -c ${c}`))}`;
}

/** copyable is a text with a button that copies it. */
export function copyable(text, what, shown = text) {
  const copy = async () => {
    try { await navigator.clipboard.writeText(text); notice(`The ${what} is copied.`); }
    catch { notice(`The browser does not let this page copy the ${what}.`, "bad"); }
  };
  return html`<span class="copyable"><code>${shown}</code><button type="button" class="bare" @click=${copy}
    aria-label="Copy the ${what} ${text}" title="Copy the ${what} to the clipboard.">${icon("copy")}</button></span>`;
}

/** empty explains why a view shows nothing, and what to do. */
export const empty = (what, more = nothing) => html`<div class="empty"><p>${what}</p>${more}</div>`;

/** notice shows a sentence for a few seconds, and has a screen reader read it. */
export function notice(text, tone = "ok") {
  const place = document.getElementById("notices");
  const one = document.createElement("p");
  one.className = `notice ${tone}`;
  render(html`${icon(tone === "bad" ? "cross" : tone === "wait" ? "wait" : "check", tone)}<span>${text}</span>`, one);
  place.append(one);
  while (place.children.length > 3) place.firstChild.remove();
  setTimeout(() => one.remove(), tone === "bad" ? 12_000 : 6_000);
}

/**
 * confirmed asks a question, and resolves to whether the answer was yes.
 * @param {{title: string, body: unknown, yes: string}} question
 * @returns {Promise<boolean>}
 */
export function confirmed({ title, body, yes }) {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "question");
  render(html`<form method="dialog">
    <h2 id="question">${icon("warn", "bad")}${title}</h2>${body}
    <div class="buttons"><button value="" autofocus>Cancel</button><button value="yes" class="danger">${yes}</button></div>
  </form>`, dialog);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => {
    resolve(dialog.returnValue === "yes");
    dialog.remove(); // the browser has given the focus back
  }));
}

/** profilesText says which profiles limit a client: "dev|ops" is what either allows, and "@read" no profile. */
export function profilesText(choices) {
  const named = choices.filter((c) => c !== "@read").map((c) => c.replaceAll("|", " or "));
  const text = (named.length > 1 ? named.map((c) => (c.includes(" ") ? `(${c})` : c)) : named).join(" and ");
  return choices.includes("@read") ? `${text ? `${text}, ` : ""}read-only` : text;
}
