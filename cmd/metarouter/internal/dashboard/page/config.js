// Configuration: what is loaded, and its problems.
import { state, now } from "./store.js";
import { html, nothing, icon, plural, time, ago, look, empty } from "./ui.js";
import { link } from "./route.js";
import { whatOf, whoRejected, afterRejection } from "./summary.js";

const file = (path) => path.split(/[/\\]/).at(-1);

const at = (p) => (p.line > 0 ? `${file(p.file)}:${p.line}:${p.column}` : file(p.file));

function rejected(c) {
  const tone = c.approve ? "wait" : "bad";
  return c.rejected ? html`<section class="trouble ${tone}" role="alert" aria-label="Rejected edit">${icon(c.approve ? "wait" : "cross", tone)}<div>
    <p><strong>${whoRejected(c)}</strong></p><pre class="what">${c.rejected}</pre>
    <p class="advice">The previous configuration stays in use, and its servers keep running. ${afterRejection(c)}</p></div></section>` : nothing;
}

function problems(c) {
  const all = c.problems ?? [];
  if (!all.length) return c.rejected ? nothing : html`<p class="good">${icon("check", "ok")}No problem in the ${c.files.length === 1 ? "file" : "files"}.</p>`;
  const warnings = all.filter((p) => p.severity === "warning").length;
  const found = [all.length > warnings ? plural(all.length - warnings, "error") : "", warnings ? plural(warnings, "warning") : ""].filter(Boolean).join(", ");
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Problems"><table class="problems"><caption>${found}</caption>
    <thead><tr><th scope="col">Where</th><th scope="col">Kind</th><th scope="col">Server</th><th scope="col">What, and what to write</th></tr></thead>
    <tbody>${all.map((p) => html`<tr class=${p.severity}><td><code title="Full path: ${p.file}">${at(p)}</code></td>
      <td class="kind">${p.severity === "warning" ? icon("warn", "wait") : icon("cross", "bad")}${p.severity}</td>
      <td>${p.server ? html`<a href=${link("servers", { server: p.server })}>${p.server}</a>` : nothing}</td>
      <td>${whatOf(p)}${p.fix ? html`<span class="fix">→ ${p.fix}</span>` : nothing}</td></tr>`)}</tbody></table></div>`;
}

function entry(e, named) {
  const s = state.servers.get(e.name);
  const l = s && look(s);
  const facts = [["Environment", e.env], ["Headers", e.headers]].filter(([, v]) => v?.length);
  return html`<article class="entry ${e.name === named ? "named" : ""}" id="entry-${encodeURIComponent(e.name)}">
    <h3>${e.name}</h3>
    ${l ? html`<a class="state ${l.tone}" href=${link("servers", { server: e.name })}>${icon(l.icon, l.tone)}<span>${l.word}</span></a>` : nothing}
    <p class="command"><span class="muted">${e.transport}</span> <code>${e.command || e.url}</code></p>
    ${facts.length ? html`<dl class="facts">${facts.map(([k, v]) => html`<div><dt>${k}</dt><dd>${v.map((one) => html`<code>${one}</code> `)}</dd></div>`)}</dl>` : nothing}
  </article>`;
}

let shownFor = null;

/** configuration draws the view. */
export function configuration(params) {
  const c = state.config;
  if (!c) return html`<div class="empty"><p>The router was started without a configuration file.</p></div>`;
  const named = params.get("server");
  if (named !== shownFor) {
    shownFor = named;
    if (named) requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById(`entry-${encodeURIComponent(named)}`)?.scrollIntoView({ block: "center" })));
  }
  return html`${rejected(c)}
    <div class="cards">
      <section class="card"><h2>${plural(c.files.length, "file")}</h2>
        <ul class="files">${c.files.map((f) => html`<li><code>${f}</code></li>`)}</ul>
        <p class="muted">loaded ${time(c.loaded)}, ${ago(c.loaded, now())} ago</p>${problems(c)}</section>
    </div>
    <section aria-labelledby="entries"><h2 id="entries">${plural(c.entries?.length ?? 0, "server")} in the configuration</h2>
      <p class="muted">Only the names of variables and headers are shown, not their values.</p>
      ${c.entries?.length ? html`<div class="entries">${c.entries.map((e) => entry(e, named))}</div>` : empty("The configuration has no server.")}</section>`;
}
