// Clients: who uses the router, how they speak to it, and how much they call.
import { repeat } from "./vendor/lit-html/directives/repeat.js";
import { state, now } from "./store.js";
import { html, nothing, count, plural, ago, era, empty, profilesText } from "./ui.js";
import { link } from "./route.js";
import { logins } from "./logins.js";

const transports = {
  stdio: { word: "stdio", title: "A program that was started by the client connects it to this router." },
  http: { word: "HTTP", title: "The client uses MCP over HTTP." },
  plain: { word: "plain JSON-RPC", title: "The client sends JSON-RPC over HTTP, without MCP's sessions. It is known by its User-Agent." },
};

const modes = { direct: "all tools", search: "the search tools", code: "the tools for scripts" };

function row(c) {
  const t = transports[c.transport] ?? { word: c.transport };
  const silent = c.last && !c.last.startsWith("0001") ? c.last : "";
  return html`<tr role="row">
    <td role="cell" class="what"><b>${c.name || "no name"}</b>${c.version ? html` <span class="muted">${c.version}</span>` : nothing}</td>
    <td role="cell" class="speaks">${c.protocol_version ? era(c.era, c.protocol_version) : html`<span class="muted">any revision</span>`}</td>
    <td role="cell" class="over" title=${t.title ?? nothing}>${t.word}</td>
    <td role="cell" class="profile">${c.profiles.length ? html`<span class="narrow">profile </span>${profilesText(c.profiles)}` : html`<span class="muted" title="No profile limits this client.">no profile</span>`}</td>
    <td role="cell" class="principal">${c.principal || html`<span class="muted" title="The client sent no token.">no token</span>`}</td>
    <td role="cell" class="mode" title="The client sees ${modes[c.mode] ?? c.mode}.">${c.mode}</td>
    <td role="cell" class="took num">${c.calls ? plural(c.calls, "call") : html`<span class="muted">no calls</span>`}</td>
    <td role="cell" class="when num">${ago(c.since, now())}${silent ? html`<span class="muted">, last ${ago(silent, now())} ago</span>` : nothing}</td>
  </tr>`;
}

/** clients draws the view. */
export function clients() {
  const { clients: all, total } = state.clients ?? { clients: [], total: 0 };
  if (!all.length) {
    return html`${empty("No client is connected.", html`<p><code>metarouter install</code> connects Claude, Cursor, VS Code and others.</p>`)}${logins()}`;
  }
  return html`<section aria-label="Connected clients">
    <table role="table" class="calls clients"><caption class="sr">Connected clients, the oldest first</caption>
      <thead role="rowgroup"><tr role="row">${["Client", "Protocol", "Transport", "Profile", "Principal", "Mode", "Calls", "Connected for"].map((h) => html`<th role="columnheader" scope="col">${h}</th>`)}</tr></thead>
      <tbody role="rowgroup">${repeat(all, (c) => `${c.since} ${c.name} ${c.transport} ${c.profiles} ${c.principal}`, row)}</tbody></table>
    ${total > all.length ? html`<p class="muted">These are the ${count(all.length)} of ${count(total)} clients, the oldest.</p>` : nothing}
    <p class="muted">A client without a session is listed for ten minutes after its last request. <a href=${link("calls")}>The last calls</a> name their clients too.</p>
  </section>
  ${logins()}`;
}
