// Servers: those that do not work first, each in one line until it is opened.
import { repeat } from "./vendor/lit-html/directives/repeat.js";
import { state, act, changed, latenciesOf, watchers } from "./store.js";
import { html, svg, nothing, icon, look, count, plural, duration, notice, confirmed, time, empty, era } from "./ui.js";
import { link, replace } from "./route.js";
import { troubles, advice, brief, whatIsWrong } from "./summary.js";

const opened = new Set();
const busy = new Map(); // the action that is under way, by server
let shownFor = null; // the server that the address names, once it was opened for that
let filter = "";

const groups = {
  bad: { word: "not working", has: (l) => l.tone === "bad" },
  wait: { word: "starting", has: (l) => l.tone === "wait" },
  ok: { word: "working", has: (l) => l.tone === "ok" },
  off: { word: "off", has: (l) => l.tone === "off" },
};

async function go(s, action, done, body) {
  if (busy.has(s.name)) return;
  busy.set(s.name, action);
  changed();
  try {
    await act(s.name, action, body);
    notice(`${s.name} ${done}.`);
  } catch (e) {
    notice(`${s.name}: ${e.message}`, "bad");
  }
  busy.delete(s.name);
  changed();
}

function buttons(s) {
  const doing = busy.get(s.name);
  const one = (action, word, during, done) => html`<button type="button" aria-busy=${doing === action} aria-disabled=${!!doing}
    @click=${() => go(s, action, done)} aria-label="${doing === action ? during : word} ${s.name}">${doing === action ? `${during} …` : word}</button>`;
  if (s.node) return html`<span class="muted" title="The server is on another node of the cluster. It can be started and stopped there only.">on ${s.node}</span>`;
  if (s.state === "self" || s.state === "misconfigured") return html`<a href=${link("configuration", { server: s.name })}>Its entry</a>`;
  if (s.state === "needs_auth" && s.login?.needed) return loginButton(s);
  if (look(s).tone === "off") return one("start", "Start", "Starting", "is started");
  return html`${one("restart", "Restart", "Restarting", "is restarted")}${one("stop", "Stop", "Stopping", "is stopped")}`;
}

const loginPages = new Map(); // {url, code} of the login that was begun, by server

/** begin opens the page on which a person logs in to a server. */
async function begin(s) {
  if (busy.has(s.name)) return;
  // Browsers open a tab only at once after a click. It must not reach this page.
  const tab = window.open("about:blank", "_blank");
  if (tab) tab.opener = null;
  busy.set(s.name, "login");
  changed();
  try {
    const page = JSON.parse(await act(s.name, "login"));
    if (!/^https?:\/\//i.test(page.url)) throw new Error("The issuer's address is not a web page.");
    loginPages.set(s.name, page);
    if (page.code) notice(`The code to enter is ${page.code}.`, "wait");
    if (tab && !tab.closed) tab.location.replace(page.url);
  } catch (e) {
    tab?.close();
    notice(`${s.name}: ${e.message}`, "bad");
  }
  busy.delete(s.name);
  changed();
}

function loginButton(s) {
  const doing = busy.get(s.name) === "login";
  return html`<button type="button" class="primary" aria-busy=${doing} aria-disabled=${busy.has(s.name)}
    @click=${() => begin(s)} aria-label="Log in to ${s.name}">${doing ? "Opening …" : "Log in"}</button>`;
}

/** loginPage is the way to a login that was begun, where the browser opened no tab. */
function loginPage(s) {
  const page = loginPages.get(s.name);
  return html`<p class="muted">The login waits for you in another tab for five minutes. <a href=${page.url} target="_blank" rel="noopener noreferrer">Open its page</a>${page.code ? html` and enter the code <code>${page.code}</code>` : nothing}.</p>`;
}

async function logout(s) {
  const yes = await confirmed({
    title: `Log out of ${s.name}?`, yes: "Log out",
    body: html`<p>The router forgets the login${s.login.issuer ? html` at <strong>${s.login.issuer}</strong>` : nothing} and has it revoked. Clients with this login can use the server again after another login.</p>`,
  });
  if (yes) go(s, "logout", "is logged out");
}

function login(s) {
  const l = s.login;
  const until = l.renews ? html`It renews itself.` : l.expires ? html`It is valid until ${time(l.expires)}.` : html`It is valid until the server refuses it.`;
  return html`<h3>Login</h3>
    <p>There is a login${l.issuer ? html` at <strong>${l.issuer}</strong>` : nothing}. ${until}</p>
    <p class="buttons"><button type="button" aria-disabled=${busy.has(s.name)} aria-label="Log out of ${s.name}" @click=${() => logout(s)}>Log out</button></p>`;
}

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** sparkline draws the latency of the last calls, and prints the median next to it. */
function sparkline(s) {
  const all = latenciesOf(s.name);
  if (!all.length) return html`<span class="muted">no calls yet</span>`;
  const [w, h, top] = [80, 22, Math.max(...all, 0.001)];
  const x = (i) => (all.length === 1 ? w - 2 : (i * (w - 2)) / (all.length - 1));
  const y = (v) => h - 2 - (v / top) * (h - 5);
  const points = all.map((v, i) => `${x(i).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
  const last = all.at(-1);
  return html`<svg class="spark" viewBox="0 0 ${w} ${h}" role="img"
      aria-label="Latency of the last ${plural(all.length, "call")}: median ${duration(median(all))}, worst ${duration(top)}">
      ${svg`<polygon points="0,${h} ${points} ${w - 2},${h}"/><polyline points=${points}/><circle cx=${x(all.length - 1).toFixed(1)} cy=${y(last).toFixed(1)} r="1.8"/>`}
    </svg><span class="num" title="The median of the last ${plural(all.length, "call")} of this server: half of them were faster. The curve shows each call.">${duration(median(all))}</span>`;
}

function toggle(name) {
  if (!opened.delete(name)) opened.add(name);
  if (new URLSearchParams(location.hash.split("?")[1]).has("server")) replace(link("servers"));
  changed();
}

function row(s) {
  const l = look(s);
  const id = encodeURIComponent(s.name); // a name may have spaces
  const open = opened.has(s.name);
  const wrong = l.order < 2;
  const error = wrong && whatIsWrong(s);
  const say = s.doing && s.state === "starting" ? s.doing : "";
  return html`<article class="server ${l.tone} ${open ? "open" : ""}" id="server-${id}" aria-labelledby="name-${id}">
    <p class="state ${l.tone}">${icon(l.icon, `${l.tone} ${l.icon === "wait" ? "turns" : ""}`)}<span>${l.word}</span></p>
    <div class="who">
      <h2 id="name-${id}"><button type="button" class="name" aria-expanded=${open} aria-controls=${open ? `more-${id}` : nothing}
        @click=${() => toggle(s.name)}>${s.name}${icon("down", "chevron")}</button></h2>
      ${error ? html`<p class="error">${open ? error : brief(error)}</p>` : nothing}
      ${wrong ? html`<p class="advice">${advice(s)}</p>` : nothing}
      ${s.state !== "needs_auth" ? nothing : loginPages.has(s.name) ? loginPage(s) : nothing}
      ${say ? html`<p class="muted">${say}</p>` : nothing}
    </div>
    <p class="cell tools"><span class="sr">Tools: </span>${s.tools ? html`<a href=${link("tools", { server: s.name })}>${plural(s.tools, "tool")}</a>` : html`<span class="muted">no tools</span>`}${s.changed_tools ? html` <span class="warned" title="The definitions of these tools changed since you last looked.">${count(s.changed_tools)} changed</span>` : nothing}${s.changed_hints ? html` <span class="warned" title="These tools claim to do less harm than you have confirmed. Open the server to confirm that.">${count(s.changed_hints)} to confirm</span>` : nothing}</p>
    <p class="cell latency">${l.tone === "off" ? nothing : sparkline(s)}</p>
    <p class="cell now">${s.calls_in_flight ? html`<span>${count(s.calls_in_flight)} running</span>` : nothing}${s.calls_waiting ? html`<span class="warned" title="These calls wait because as many calls as &quot;maxConcurrent&quot; allows are running.">${count(s.calls_waiting)} waiting</span>` : nothing}
      ${s.restarts ? html`<span class=${s.restarts > 2 ? "warned" : "muted"} title="The number of restarts of this server since the router started.">${plural(s.restarts, "restart")}</span>` : nothing}</p>
    <div class="actions">${buttons(s)}</div>
    ${open ? more(s) : nothing}
  </article>`;
}

function changes(s) {
  const left = s.changed_tools - s.changed.length;
  return html`<h3>Tools that changed since you last looked</h3>
    <ul class="changes">${s.changed.map((name) => html`<li><a href=${link("tools", { server: s.name, tool: `${s.name}:${name}` })}>${name}</a></li>`)}
      ${left ? html`<li>and ${count(left)} more</li>` : nothing}</ul>
    <p class="buttons"><button type="button" aria-disabled=${busy.has(s.name)} aria-label="Mark the changes of ${s.name} as seen"
      @click=${() => go(s, "seen", "has no more changes that you have not seen")}>Seen</button></p>`;
}

function claims(s) {
  const left = s.changed_hints - s.hints.length;
  return html`<h3>Tools that claim to do less harm than you have confirmed</h3>
    <ul class="changes">${s.hints.map((h) => html`<li><a href=${link("tools", { server: s.name, tool: h.id })}>${h.tool}</a>: ${h.changes.join(", ")}</li>`)}
      ${left ? html`<li>and ${count(left)} more</li>` : nothing}</ul>
    <p class="buttons"><button type="button" aria-disabled=${busy.has(s.name)} aria-label="Confirm the hints of ${s.name}"
      @click=${() => go(s, "hints", "has the hints that you confirmed", { hints: Object.fromEntries(s.hints.map((h) => [h.tool, h.hints])) })}>Confirm</button></p>`;
}

function more(s) {
  const facts = [
    ["Transport", s.transport], ["Node", s.node], ["Protocol", s.protocol_version && era(s.era, s.protocol_version)],
    ["Process", s.pid ? html`<span class="pid" data-pid=${s.pid}>${s.pid}</span>` : ""], ["Why several", s.several], ["Restarts", count(s.restarts)],
    ["Calls", `${count(s.calls_in_flight)} running, ${count(s.calls_waiting)} waiting`],
    ["Lines on stdout that are not MCP messages", s.stray_lines ? count(s.stray_lines) : ""],
  ].filter(([, v]) => v);
  return html`<div class="more" id="more-${encodeURIComponent(s.name)}">
    ${look(s).tone === "off" ? html`<p class="advice">${advice(s)}</p>` : nothing}
    ${s.last_error && (look(s).tone === "ok" || s.problem) ? html`<p class="muted">${s.problem ? "Its error" : "Last error"}: ${s.last_error}</p>` : nothing}
    <dl class="facts">${facts.map(([k, v]) => html`<div><dt>${k}</dt><dd>${v}</dd></div>`)}</dl>
    ${s.login?.logged_in ? login(s) : nothing}
    ${s.changed_tools ? changes(s) : nothing}
    ${s.changed_hints ? claims(s) : nothing}
    ${s.node ? nothing : html`<h3>Last lines of stderr</h3>`}
    ${s.node ? nothing : s.stderr?.length ? html`<pre class="log" tabindex="0" role="region" aria-label="Last lines of stderr of ${s.name}">${s.stderr.join("\n")}</pre>`
      : html`<p class="muted">The server has written nothing to stderr.</p>`}
    <p class="see"><a href=${link("tools", { server: s.name })}>Its tools</a><a href=${link("calls", { server: s.name })}>Its calls</a>${s.node ? nothing : html`<a href=${link("configuration", { server: s.name })}>Its entry</a>`}</p>
  </div>`;
}

/** wrong lists the problems that belong to no single server. */
function wrong() {
  const all = troubles().filter((t) => !t.server);
  return all.length ? html`<section class="troubles" aria-label="Configuration problems"><ul>${repeat(all.slice(0, 3), (t) => t.key, (t) => html`<li class="trouble ${t.tone}">
      ${icon(t.tone === "bad" ? "cross" : "warn", t.tone)}
      <div><p><strong>${t.who}</strong><span class="what">${t.what}</span></p><p class="advice">${t.advice}</p></div>
      <a href=${t.href} aria-label="Look at ${t.who} in the configuration">Look</a></li>`)}</ul></section>` : nothing;
}

function chips(all) {
  const n = (g) => all.filter((s) => groups[g].has(look(s))).length;
  const chip = (value, word, number) => html`<button type="button" class="chip" aria-pressed=${filter === value}
    @click=${() => { filter = filter === value ? "" : value; changed(); }}>${word} <span class="num">${count(number)}</span></button>`;
  if (!filter && Object.keys(groups).filter(n).length < 2) return nothing;
  return html`<div class="chips" role="group" aria-label="States of the servers to show">
    ${chip("", "all", all.length)}${Object.keys(groups).filter((g) => n(g) || filter === g).map((g) => chip(g, groups[g].word, n(g)))}</div>`;
}

watchers.push((news) => {
  for (const [, s] of news) if (s.state !== "needs_auth") loginPages.delete(s.name);
});

/** servers draws the view. */
export function servers(params) {
  const named = params.get("server");
  if (named !== shownFor) {
    shownFor = named;
    if (named) {
      opened.add(named);
      filter = "";
      requestAnimationFrame(() => requestAnimationFrame(() => {
        const row = document.getElementById(`server-${encodeURIComponent(named)}`);
        row?.scrollIntoView({ block: "center" });
        row?.querySelector("button.name").focus({ preventScroll: true });
      }));
    }
  }
  const all = state.order.map((name) => state.servers.get(name)).filter(Boolean);
  if (!all.length) {
    const said = (state.config?.problems ?? []).filter((p) => !p.server);
    return empty("No server is configured.", html`${said.map((p) => html`<p>${p.message}</p>`)}
      <p><code>metarouter import CLIENT --write</code> copies the servers of a client such as claude-desktop or cursor,
      <code>metarouter add NAME --write -- COMMAND</code> adds one. Or write it into <code>${state.config?.files?.at(-1) ?? ".mcp.json"}</code>. It is started when the file is saved.</p>`);
  }
  const shown = all.filter((s) => !filter || groups[filter].has(look(s)))
    .sort((a, b) => look(a).order - look(b).order || (a.name < b.name ? -1 : 1));
  return html`${wrong()}${chips(all)}
    <div class="servers" role="list" aria-label="Servers">${repeat(shown, (s) => s.name, (s) => html`<div role="listitem">${row(s)}</div>`)}</div>
    ${shown.length ? nothing : empty("No server is in this state now.")}`;
}
