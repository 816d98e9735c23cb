// Calls: how many, how fast, and each of the last.
import { repeat } from "./vendor/lit-html/directives/repeat.js";
import { live } from "./vendor/lit-html/directives/live.js";
import { state, seconds, ratesKept, maxCalls, perSecond, latency, changed } from "./store.js";
import { html, nothing, icon, count, plural, duration, size, time, rate, percent, copyable, empty, profilesText } from "./ui.js";
import { link, route, replace } from "./route.js";
import { rates, latencies } from "./charts.js";

/** The word for each outcome, and its look. */
const outcomes = {
  ok: { word: "ok", tone: "ok", icon: "check" },
  tool_error: { word: "tool failed", tone: "bad", icon: "cross" },
  server_error: { word: "server refused", tone: "bad", icon: "cross" },
  invalid_arguments: { word: "bad arguments", tone: "wait", icon: "warn" },
  not_approved: { word: "not approved", tone: "wait", icon: "warn" },
  no_answer: { word: "no answer", tone: "bad", icon: "off" },
  cancelled: { word: "cancelled", tone: "off", icon: "off" },
};

let paused; // the calls at the moment the list was paused
let charts; // made when first seen

function set(key, value) {
  const { params } = route();
  params.set(key, value);
  replace(link("calls", Object.fromEntries(params)));
  changed();
}

function drawn() {
  charts ??= { rates: rates(), latencies: latencies() };
  const all = seconds(ratesKept);
  const total = all.reduce((n, r) => n + r.ok + r.failed, 0);
  const failed = all.reduce((n, r) => n + r.failed, 0);
  const peak = all.reduce((n, r) => Math.max(n, r.ok + r.failed), 0);
  const h = latency();
  const share = total ? ` (${failed && failed / total < 0.01 ? "< 1%" : percent(failed / total)})` : "";
  charts.rates.update([all.map((r) => r.t), all.map((r) => r.ok + r.failed), all.map((r) => r.failed)],
    `Calls per second over the last 5 minutes: ${rate(perSecond())} now, ${peak} at most, ${count(failed)} of ${count(total)} failed`);
  charts.latencies.update(h, `Latency of the last calls: half within ${duration(h.p50)}, 95% within ${duration(h.p95)}, 99% within ${duration(h.p99)}`);
  const fact = (k, v, tone = "") => html`<div class=${tone}><dt>${k}</dt><dd>${v}</dd></div>`;
  return html`<div class="charts">
    <figure><figcaption><h2>Calls per second</h2><p class="muted">last 5 minutes</p>
      <dl class="figures">${fact("now", perSecond() ? perSecond().toFixed(1) : "0")}${fact("in all", count(total))}${fact(html`<i class="dash"></i>failed`, `${count(failed)}${share}`, failed ? "bad" : "")}</dl></figcaption>${charts.rates.element}</figure>
    <figure><figcaption><h2>Latency</h2><p class="muted">the last calls by how long they took</p>
      <dl class="figures">${[["p50", h.p50], ["p95", h.p95], ["p99", h.p99]].map(([k, v]) => fact(k, v ? duration(v) : "–"))}</dl></figcaption>${charts.latencies.element}</figure>
  </div>`;
}

function row(c) {
  if (c.skipped) return html`<tr role="row" class="skipped"><td role="cell" colspan="7">${plural(c.skipped, "more call")} at this moment, too many to list each</td></tr>`;
  const o = outcomes[c.outcome] ?? { word: c.outcome, tone: "off", icon: "off" };
  const own = c.server === "metarouter";
  return html`<tr role="row" class=${o.tone}>
    <td role="cell" class="when num">${time(c.time)}</td>
    <td role="cell" class="what">${own || !c.server ? html`<b>${c.tool}</b>` : html`<a href=${link("tools", { tool: `${c.server}:${c.tool}` })}><b>${c.tool}</b></a>`}
      <span class="server-name">${c.server}</span>${c.answered ? html`<span class="muted"> answered by ${c.answered}</span>` : nothing}
      ${c.script ? html`<span class="muted" title="A script with this id made the call.">script ${c.script.slice(0, 8)}</span>` : nothing}
      ${c.fault ? html`<span class="fault">${c.fault}</span>` : nothing}</td>
    <td role="cell" class="outcome ${o.tone}">${icon(o.icon, o.tone)}<span>${o.word}</span>${c.attempts > 1 ? html` <span class="muted" title="The router sent this call ${c.attempts} times, because earlier attempts got no answer.">${c.attempts} attempts</span>` : nothing}${c.cached ? html` <span class="muted" title="The result is that of an earlier call with the same arguments; the server was not called.">cached</span>` : nothing}</td>
    <td role="cell" class="took num">${duration(c.ms)}</td>
    <td role="cell" class="bytes num" title="The size of the arguments, and of the result."><span class="sr">in </span>${size(c.bytes_in)}<span aria-hidden="true"> → </span><span class="sr"> out </span>${size(c.bytes_out)}</td>
    <td role="cell" class="client" title="${[c.principal && `token ${c.principal}`, c.profile && `profile ${profilesText(c.profile.split("+"))}`].filter(Boolean).join(", ")}">${c.client || html`<span class="muted">unknown</span>`}</td>
    <td role="cell" class="trace">${c.trace ? copyable(c.trace, "trace id", c.trace.slice(0, 8)) : nothing}</td>
  </tr>`;
}

/** calls draws the view. */
export function calls(params) {
  const server = params.get("server") ?? "", outcome = params.get("outcome") ?? "";
  const all = paused ?? state.calls;
  const fits = (c) => (c.skipped ? !server && !outcome
    : (!server || c.server === server) && (!outcome || (outcome === "failed" ? !["ok", "cancelled"].includes(c.outcome) : c.outcome === outcome)));
  const some = all.filter(fits);
  const newer = paused ? state.calls.findIndex((c) => c.seq === paused[0]?.seq) : 0;
  const servers = [...new Set([...state.order, ...(all.some((c) => c.server === "metarouter") ? ["metarouter"] : []), ...(server ? [server] : [])])];
  const select = (key, label, value, options) => html`<label><span class="sr">${label}</span>
    <select .value=${live(value)} @change=${(e) => set(key, e.target.value)}>${options.map(([v, word]) => html`<option value=${v} ?selected=${v === value}>${word}</option>`)}</select></label>`;
  return html`${drawn()}
    <section aria-label="Last calls">
      <div class="filters">
        <h2>Last calls</h2>
        ${select("server", "Server", server, [["", "any server"], ...servers.map((s) => [s, s])])}
        ${select("outcome", "Outcome", outcome, [["", "any outcome"], ["failed", "all that failed"], ...Object.entries(outcomes).map(([k, o]) => [k, o.word])])}
        <button type="button" aria-pressed=${!!paused} @click=${() => { paused = paused ? undefined : state.calls; changed(); }}>
          ${icon(paused ? "play" : "pause")}${paused ? `Go on${newer > 0 ? ` (${newer} newer)` : newer < 0 ? ` (${maxCalls}+ newer)` : ""}` : "Pause"}</button>
      </div>
      ${some.length ? html`<table role="table" class="calls"><caption class="sr">The last calls, the newest first</caption>
        <thead role="rowgroup"><tr role="row">${["Time", "Tool", "Outcome", "Latency", "Size", "Client", "Trace"].map((h) => html`<th role="columnheader" scope="col">${h}</th>`)}</tr></thead>
        <tbody role="rowgroup">${repeat(some, (c) => c.seq, row)}</tbody></table>
        ${all.length >= maxCalls ? html`<p class="muted">These are the last ${count(maxCalls)} calls. For all calls, set <code>"accessLog"</code> to a file in the configuration.</p>` : nothing}`
      : empty(server || outcome ? "No call in the list matches these filters." : "No tool was called yet.", html`<p>${server || outcome ? html`<a href="#calls">All calls</a>` : html`Calls of clients appear here at once. <a href="#tools">Try a tool yourself.</a>`}</p>`)}
    </section>`;
}
