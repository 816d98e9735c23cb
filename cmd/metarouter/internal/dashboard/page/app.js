// The page: its frame, its views, and when it is drawn.
import { render } from "./vendor/lit-html/lit-html.js";
import { state, now, connect, ask, drawnBy, changed, watchers, perSecond } from "./store.js";
import { html, nothing, icon, look, count, notice, ago } from "./ui.js";
import { route } from "./route.js";
import { summary, troubles, sentence, firstLine, whatIsWrong } from "./summary.js";
import { servers } from "./servers.js";
import { tools } from "./tools.js";
import { calls } from "./calls.js";
import { approvals } from "./approvals.js";
import { clients } from "./clients.js";
import { configuration } from "./config.js";

const pages = {
  servers: { title: "Servers", draw: servers },
  tools: { title: "Tools", draw: tools },
  calls: { title: "Calls", draw: calls },
  approvals: { title: "Approvals", draw: approvals },
  clients: { title: "Clients", draw: clients },
  configuration: { title: "Configuration", draw: configuration },
};

const links = {
  connecting: { tone: "wait", icon: "wait", word: "connecting", title: "The page is connecting to the router." },
  live: { tone: "ok", icon: "check", word: "live", title: "The page is connected to the router and updates by itself." },
  lost: { tone: "bad", icon: "cross", word: "disconnected, trying again", title: "The router does not answer. The page reconnects by itself as soon as the router runs again." },
  asleep: { tone: "off", icon: "moon", word: "paused while hidden", title: "The page updates again when it is visible." },
};

const themes = { auto: { icon: "auto", next: "light" }, light: { icon: "sun", next: "dark" }, dark: { icon: "moon", next: "auto" } };

const theme = () => document.documentElement.dataset.theme ?? "auto";

function setTheme(to) {
  if (to === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = to;
  try { localStorage.setItem("metarouter-theme", to); } catch { /* then the choice lasts until the page is closed */ }
  dispatchEvent(new Event("themechange"));
  changed();
}

const modeTitles = {
  direct: 'Clients see all tools. To show the search tools instead, set "mode": "search" in the configuration.',
  search: 'Clients see the tools that find and call the others. To show all tools, set "mode": "direct" in the configuration.',
  code: 'Clients see the tools that find the others, and run_script, which runs scripts that call them.',
};

/** logOut ends the browser's login, and shows the page to log in. */
async function logOut() {
  try {
    await ask("logout", "{}");
  } finally {
    location.assign("./");
  }
}

function header() {
  const { router } = state;
  const l = links[state.link];
  const t = theme();
  return html`<header class="top">
    <a class="brand" href="#servers"><img src="dashboard/page/icon.svg" alt="" width="26" height="26"><span>metarouter</span></a>
    ${router ? html`<p class="about"><span>${router.version}</span><span title=${modeTitles[router.mode] ?? nothing}>${router.mode} mode</span>
      <span class="node" title="The name of this router in traces and logs.">${router.node}</span><span title="The time since this router was started.">up ${ago(router.since, now())}</span></p>` : nothing}
    <p class="link ${l.tone}" id="link" title=${l.title}>${icon(l.icon, l.tone)}<span>${l.word}</span></p>
    <button type="button" class="bare theme" @click=${() => setTheme(themes[t].next)} title="The page uses the ${t} theme. Click for the ${themes[t].next} theme."
      aria-label="Theme: ${t}; change to ${themes[t].next}">${icon(themes[t].icon)}</button>
    ${router?.logged_in ? html`<span class="visitor" title="Who has logged in with this browser.">${router.principal}</span>
      <button type="button" class="bare" id="logout" @click=${logOut} title="End this browser's login as ${router.principal}. The page then asks to log in again.">Log out</button>` : nothing}
  </header>`;
}

function nav(view) {
  const { config, catalog } = state;
  const wrong = [...state.servers.values()].filter((s) => look(s).tone === "bad").length;
  const warnings = (config?.problems ?? []).filter((p) => p.severity === "warning").length;
  const errors = (config?.problems?.length ?? 0) - warnings + (config?.rejected ? 1 : 0);
  const alarm = (n, what) => html`<span class="count bad">${icon("warn")}${count(n)}<span class="sr"> ${what}</span></span>`;
  const counts = {
    servers: wrong ? alarm(wrong, "not working") : html`<span class="count">${count(state.servers.size)}</span>`,
    tools: html`<span class="count">${count(catalog?.tools ?? 0)}</span>`,
    calls: perSecond() >= 0.1 ? html`<span class="count">${perSecond().toFixed(1)}/s</span>` : nothing,
    approvals: state.approvals?.length ? html`<span class="count bad">${count(state.approvals.length)}<span class="sr"> waiting</span></span>` : nothing,
    clients: html`<span class="count">${count(state.clients?.total ?? 0)}</span>`,
    configuration: errors ? alarm(errors, "errors") : warnings ? html`<span class="count">${count(warnings)}<span class="sr"> warnings</span></span>` : nothing,
  };
  return html`<nav aria-label="Views"><ul>${Object.entries(pages).map(([name, p]) => html`<li>
    <a href="#${name}" aria-current=${name === view ? "page" : nothing}>${icon(name)}<span class="label">${p.title}</span>${state.router ? counts[name] : nothing}</a>
  </li>`)}</ul></nav>`;
}

const toMain = (event) => {
  event.preventDefault(); // the address names the view, which must stay
  document.getElementById("main").focus();
};

function page() {
  const { view, params } = route();
  return html`<a class="skip" href="#main" @click=${toMain}>Skip to the content</a>
    <div class="frame">${header()}${nav(view)}</div>
    ${summary(view)}
    <main id="main" tabindex="-1" class="view-${view}${state.link === "lost" ? " stale" : ""}">
      <h1 class="sr">${pages[view].title}</h1>
      ${state.router ? pages[view].draw(params) : html`<div class="empty"><p>${links[state.link].word} …</p></div>`}
    </main>`;
}

function draw() {
  const focused = document.activeElement;
  const app = document.getElementById("app");
  if (app.dataset.broken) app.replaceChildren();
  delete app.dataset.broken;
  try {
    render(page(), app);
  } catch (e) { // drop the half-drawn view, so that another view can be drawn
    const fresh = document.createElement("div");
    fresh.id = "app";
    fresh.dataset.broken = "yes";
    app.replaceWith(fresh);
    render(html`<main id="main" tabindex="-1"><div class="empty"><p>This view can't be drawn: ${e.message}</p><p><a href="#servers">Back to the servers</a></p></div></main>`, fresh.appendChild(document.createElement("div")));
    throw e;
  }
  // A row that was moved has lost the focus on the way.
  if (focused?.isConnected && focused !== document.activeElement && document.activeElement === document.body) focused.focus({ preventScroll: true });
  const bad = troubles().filter((t) => t.tone === "bad").length;
  const title = `${bad ? `(${bad}) ` : ""}${pages[route().view].title} · metarouter: ${sentence()}`;
  if (document.title !== title) document.title = title;
}

// Announces servers that stop working or work again while the page is open. Servers that
// start are not announced. Several servers share one sentence.
watchers.push((news) => {
  const broken = [], restarting = [], repaired = [];
  for (const [before, after] of news) {
    const [was, is] = [look(before), look(after)];
    if (is.tone === "bad" && was.tone !== "bad") broken.push(after);
    else if (after.state === "restarting" && was.tone === "ok") restarting.push(after);
    else if (is.tone === "ok" && (was.tone === "bad" || before.state === "restarting")) repaired.push(after);
  }
  const announce = (all, one, many, tone) => {
    if (all.length === 1) notice(one(all[0]), tone);
    else if (all.length) notice(`${count(all.length)} servers ${many}.`, tone);
  };
  announce(broken, (s) => `${s.name}: ${look(s).word}. ${firstLine(whatIsWrong(s))}`, "stopped working", "bad");
  announce(restarting, (s) => `${s.name} is restarting. ${firstLine(s.last_error)}`, "are restarting", "wait");
  announce(repaired, (s) => `${s.name} works again.`, "work again");
});

let shown = route().view;
addEventListener("hashchange", () => {
  changed();
  const { view } = route();
  if (view === shown) return;
  shown = view;
  scrollTo(0, 0);
  requestAnimationFrame(() => document.getElementById("main").focus({ preventScroll: true }));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));

drawnBy(draw);
connect();
