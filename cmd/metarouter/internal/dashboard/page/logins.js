// Logins: who is logged in to which remote server, and how an administrator ends a login.
import { now, changed, ask } from "./store.js";
import { html, nothing, ago, notice, confirmed } from "./ui.js";

let held = [];
let asked = 0; // when the router was asked last

async function load() {
  asked = Date.now();
  try {
    held = JSON.parse(await ask("dashboard/logins")).logins;
  } catch { /* the next look asks again */ }
  changed();
}

async function end(l) {
  const yes = await confirmed({
    title: `End the login of ${l.user || l.id} at ${l.server}?`, yes: "End the login",
    body: html`<p>The router forgets the login, and has <strong>${l.issuer}</strong> revoke it. The next call of this user asks for another login.</p>`,
  });
  if (!yes) return;
  try {
    held = JSON.parse(await ask(`dashboard/logins/${encodeURIComponent(l.server)}/${encodeURIComponent(l.id)}/end`, "{}")).logins;
    notice(`The login of ${l.user || l.id} at ${l.server} has ended.`);
  } catch (e) {
    notice(`${l.server}: ${e.message}`, "bad");
  }
  changed();
}

const row = (l) => html`<tr role="row">
  <td role="cell" class="what"><b>${l.server}</b></td>
  <td role="cell" class="principal">${l.user || html`<span class="muted">the router's own user</span>`}</td>
  <td role="cell" class="profile">${l.issuer}</td>
  <td role="cell" class="when num">${ago(l.used, now())} ago</td>
  <td role="cell" class="took">${l.id ? html`<button type="button" @click=${() => end(l)} aria-label="End the login of ${l.user || l.id} at ${l.server}">End</button>` : nothing}</td>
</tr>`;

/** logins draws the list, if there are logins. */
export function logins() {
  if (Date.now() - asked > 30_000) load();
  return held.length ? html`<section aria-label="Logins at servers">
    <h2>Logins at servers</h2>
    <table role="table" class="calls clients"><caption class="sr">Logins at remote servers</caption>
      <thead role="rowgroup"><tr role="row">${["Server", "User", "Issuer", "Last used", "End"].map((h) => html`<th role="columnheader" scope="col">${h}</th>`)}</tr></thead>
      <tbody role="rowgroup">${held.map(row)}</tbody></table>
  </section>` : nothing;
}
