// Approvals: the calls that wait until a person allows them.
import { repeat } from "./vendor/lit-html/directives/repeat.js";
import { state, now, ask, changed, askers } from "./store.js";
import { html, nothing, icon, plural, ago, notice, empty, profilesText } from "./ui.js";
import { link, route } from "./route.js";
import { shown } from "./plain.js";

/**
 * A Request is a call that waits or has waited. It keeps its place until the view is left, so that
 * no click hits another request than the one that was read.
 * @typedef {{pending: object, doing: ""|"approve"|"approve-all"|"deny", answer: string}} Request
 */

/** @type {Map<string, Request>} */
const requests = new Map();

const isOver = (r) => !(state.approvals ?? []).some((p) => p.id === r.pending.id);

addEventListener("hashchange", () => {
  if (route().view !== "approvals") requests.clear();
});

const nameOf = (p) => `${shown(p.tool)} of ${shown(p.server)}`;

// Announces calls that begin to wait while the page is open.
askers.push((fresh) => {
  if (fresh.length === 1) notice(`${nameOf(fresh[0])} waits for an approval.`, "wait");
  else if (fresh.length) notice(`${plural(fresh.length, "more call")} wait for an approval.`, "wait");
});

async function decide(r, action, done) {
  if (r.doing || r.answer || isOver(r)) return;
  r.doing = action;
  changed();
  try {
    await ask(`dashboard/approvals/${encodeURIComponent(r.pending.id)}/${action}`, "{}");
    r.answer = `You ${done} this call.`;
    notice(`${nameOf(r.pending)} is ${done}.`);
  } catch (e) {
    notice(`${nameOf(r.pending)}: ${e.message}`, "bad");
  }
  r.doing = "";
  changed();
  requestAnimationFrame(() => requestAnimationFrame(() => { // the buttons, one of which had the focus, are gone
    if (document.activeElement === document.body) document.getElementById(`request-${r.pending.id}`)?.focus({ preventScroll: true });
  }));
}

const part = (title, text, label) => html`<h3>${title}</h3><pre class="log" tabindex="0" role="region" aria-label="${title} of ${label}">${text}</pre>`;

function buttons(r) {
  const one = (action, word, during, done, look) => html`<button type="button" class=${look} aria-busy=${r.doing === action} aria-disabled=${!!r.doing}
    @click=${() => decide(r, action, done)} aria-label="${word} ${nameOf(r.pending)}">${r.doing === action ? `${during} …` : word}</button>`;
  return html`<p class="buttons">${one("approve", "Approve", "Approving", "approved", "primary")}${r.pending.script ? one("approve-all", "Approve all of this script", "Approving", "approved", "") : nothing}${one("deny", "Deny", "Denying", "denied", "")}
    <span class="muted">${r.pending.asking ? "The call waits, and the client's person is asked too. The first answer counts."
      : r.pending.script ? "The script waits here." : "The client was told to send the call again. An approval is for one such call, within five minutes."}</span></p>`;
}

function card(r) {
  const p = r.pending;
  const over = r.answer || isOver(r) && !r.doing;
  const facts = [
    ["Principal", p.principal ? shown(p.principal) : html`<span class="muted">no token</span>`], ["Profile", profilesText((p.profile || "").split("+"))],
    ["Client", p.client ? shown(p.client) : html`<span class="muted">unknown</span>`],
    ["Waits for", over ? "" : ago(p.since, now())], ["Expires in", over ? "" : ago(now(), Date.parse(p.expires))],
  ].filter(([, v]) => v);
  return html`<article class="approval ${over ? "over" : ""}" id="request-${p.id}" tabindex="-1" aria-labelledby="asked-${p.id}">
    <h2 id="asked-${p.id}"><span class="title">${shown(p.tool)}</span> <a class="server-name" href=${link("servers", { server: p.server })}>${shown(p.server)}</a></h2>
    <p class="reason">${icon("warn", "wait")}<span>${shown(p.reason)}</span></p>
    <dl class="facts">${facts.map(([k, v]) => html`<div><dt>${k}</dt><dd>${v}</dd></div>`)}</dl>
    ${part("Arguments", p.arguments, nameOf(p))}
    ${p.whole ? nothing : html`<p class="warned">Only a part of the arguments is shown. The SHA-256 of all of them is <code>${p.hash}</code>.</p>`}
    ${p.others ? part("Other parameters", p.others, nameOf(p)) : nothing}
    ${over ? html`<p class="muted">${r.answer || "This call no longer waits: someone else answered, the client gave up, or the time ran out."}</p>` : buttons(r)}
  </article>`;
}

/** approvals draws the view. */
export function approvals() {
  for (const p of state.approvals ?? []) if (!requests.has(p.id)) requests.set(p.id, { pending: p, doing: "", answer: "" });
  const all = [...requests.values()];
  if (!all.length) {
    return empty("No call waits for an approval.", html`<p>A call waits here if the client's profile has <code>"ask"</code>, such as <code>"ask": "destructive"</code>,
      and the client's person has not answered.</p>`);
  }
  return html`<section aria-label="Calls that wait for an approval" class="approvals">${repeat(all, (r) => r.pending.id, card)}</section>`;
}
