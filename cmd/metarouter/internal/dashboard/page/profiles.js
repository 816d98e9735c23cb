// Profiles: what the clients of each may see.
import { state, ask, changed } from "./store.js";
import { html, nothing, count, plural, badge } from "./ui.js";
import { link } from "./route.js";

/** What was asked for, and of which catalog and configuration it tells. */
const answer = { catalogs: -1, config: undefined, profiles: undefined, error: "" };

/** refresh asks for the profiles if something has changed since. */
function refresh() {
  if (answer.catalogs === state.catalogs && answer.config === state.config) return;
  Object.assign(answer, { catalogs: state.catalogs, config: state.config });
  ask("dashboard/profiles").then((text) => Object.assign(answer, { profiles: JSON.parse(text).profiles, error: "" }))
    .catch((e) => { answer.error = e.message; }).finally(changed);
}

/** profilesText says which profiles limit a client: "dev|ops" is what either allows, and "@read" no profile. */
export function profilesText(choices) {
  const named = choices.filter((c) => c !== "@read").map((c) => c.replaceAll("|", " or "));
  const text = (named.length > 1 ? named.map((c) => (c.includes(" ") ? `(${c})` : c)) : named).join(" and ");
  return choices.includes("@read") ? `${text ? `${text}, ` : ""}read-only` : text;
}

const maxNamed = 6; // servers

function serversOf(p) {
  if (!p.servers.length) return html`<span class="muted">no server</span>`;
  if (p.servers.length === state.order.length && p.servers.length > 1) return `all ${count(p.servers.length)}`;
  const more = p.servers.length - maxNamed;
  return html`${p.servers.slice(0, maxNamed).map((name, i) => html`${i ? ", " : ""}<a href=${link("servers", { server: name })}>${name}</a>`)}${more > 0 ? ` and ${count(more)} more` : ""}`;
}

function row(p) {
  const connected = (state.clients?.clients ?? []).filter((c) => c.profiles.some((choice) => choice.split("|").includes(p.name))).length;
  const offers = [[p.prompts, "prompt"], [p.resources, "resource"]].filter(([n]) => n).map(([n, word]) => plural(n, word));
  return html`<tr role="row">
    <td role="cell" class="what"><b>${p.name}</b>${p.name === "default" ? html` <span class="muted">for clients that choose none</span>` : nothing}</td>
    <td role="cell" class="sees">${serversOf(p)}</td>
    <td role="cell" class="offers">${plural(p.tools, "tool")}${offers.length ? html`<span class="muted">, ${offers.join(", ")}</span>` : nothing}</td>
    <td role="cell" class="limits"><span class="marks">${p.read_only ? badge("ok", "eye", "only reads", "Clients of this profile see only tools that change nothing.") : nothing}${
      p.asked ? badge("wait", "warn", `asks for ${count(p.asked)}`, `A person is asked before a call of ${p.asked === 1 ? "1 of these tools" : `${count(p.asked)} of these tools`}.`) : nothing}${
      p.fixed ? badge("", "key", `${count(p.fixed)} with fixed arguments`, "The profile fixes arguments of these tools. Clients neither see nor send them.") : nothing}</span></td>
    <td role="cell" class="mode" title="What clients of this profile see: all tools, the search tools, or the tools for scripts.">${p.mode || state.router.mode}</td>
    <td role="cell" class="took num">${connected ? plural(connected, "client") : html`<span class="muted">no client</span>`}</td>
  </tr>`;
}

/** profiles draws the table, or says that there is no profile. */
export function profiles() {
  refresh();
  if (answer.error) return html`<section aria-labelledby="profiles"><h2 id="profiles">Profiles</h2><p class="bad">${answer.error}</p></section>`;
  if (!answer.profiles) return nothing;
  const all = answer.profiles;
  return html`<section aria-labelledby="profiles"><h2 id="profiles">${all.length ? plural(all.length, "profile") : "No profile"}</h2>
    ${all.length ? html`<table role="table" class="calls clients profiles"><caption class="sr">What the clients of each profile may see</caption>
      <thead role="rowgroup"><tr role="row">${["Profile", "Servers", "Allowed", "Limits", "Mode", "Connected"].map((h) => html`<th role="columnheader" scope="col">${h}</th>`)}</tr></thead>
      <tbody role="rowgroup">${all.map(row)}</tbody></table>
      ${all.some((p) => p.name === "default") ? nothing : html`<p class="muted">A client that chooses no profile sees everything, since no profile is named <code>default</code>.</p>`}`
    : html`<p class="muted">Every client sees everything. To show some clients less, add <code>"profiles"</code> to the configuration.</p>`}</section>`;
}
