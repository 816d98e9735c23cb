// Tools: a search with the ranking of the router, and next to it the chosen tool.
import { noChange } from "./vendor/lit-html/lit-html.js";
import { repeat } from "./vendor/lit-html/directives/repeat.js";
import { live } from "./vendor/lit-html/directives/live.js";
import { state, ask, changed } from "./store.js";
import { html, nothing, icon, count, plural, percent, empty, marks } from "./ui.js";
import { link, route, replace } from "./route.js";
import { why } from "./why.js";
import { detail } from "./tool.js";

const step = 50; // tools that are listed at first
const most = 1000; // tools that the router lists at most
const pause = 180; // ms without a key before a search
const calm = 3000; // ms between two requests for the same list, while servers come and go

/** The last request, and its answer. */
const search = { key: undefined, catalogs: 0, at: 0, ranking: undefined, error: "", running: undefined, limit: step };
let typing;

function want(params) {
  const asked = new URLSearchParams();
  for (const key of ["q", "capability", "server"]) for (const v of params.getAll(key)) asked.append(key, v);
  const key = asked.toString();
  if (key !== search.key) { search.limit = step; explained.clear(); }
  if (key === search.key && search.limit === search.asked && (search.catalogs === state.catalogs || performance.now() - search.at < calm)) return;
  Object.assign(search, { key, asked: search.limit, catalogs: state.catalogs, at: performance.now() });
  search.running?.abort();
  const running = search.running = new AbortController();
  const body = { words: params.get("q") ?? undefined, capabilities: params.getAll("capability"), servers: params.getAll("server"), limit: search.limit };
  ask("dashboard/tools", JSON.stringify(body), running.signal).then((text) => {
    Object.assign(search, { ranking: JSON.parse(text), error: "", running: undefined });
  }, (e) => {
    if (e.name !== "AbortError") Object.assign(search, { error: e.message, running: undefined });
  }).finally(changed);
}

/** set changes one parameter of the address. */
function set(key, value) {
  const { view, params } = route();
  if (view !== "tools") return;
  params.delete(key);
  if (value) params.set(key, value);
  params.delete("tool");
  replace(link("tools", fromParams(params)));
  changed();
}

function fromParams(params, more = {}) {
  const all = {};
  for (const key of new Set(params.keys())) all[key] = params.getAll(key);
  return { ...all, ...more };
}

function type(event) {
  const { value } = event.target;
  clearTimeout(typing);
  typing = setTimeout(() => { typing = undefined; set("q", value); }, pause);
}

const explained = new Set(); // tools whose ranking is shown

function unfold(event, id) {
  if (event.target.open) explained.add(id);
  else explained.delete(id);
  changed();
}

function hit(t, params, chosen) {
  const q = params.get("q");
  return html`<div class="hit ${t.id === chosen ? "chosen" : ""}">
    <a class="open" href=${link("tools", fromParams(params, { tool: t.id }))} aria-current=${t.id === chosen ? "true" : nothing}>
      <span class="title">${t.name}</span> <span class="server-name">${t.server}</span></a>
    ${q ? html`<span class="confidence" title="The confidence that this tool fits the search, from 0 to 100 percent. Below the findThreshold, the answer is not sure; below the routeThreshold, route_task runs nothing. Both are 50 percent by default."><progress max="1" value=${t.confidence} aria-label="Confidence"></progress><b class="num">${t.confidence ? percent(t.confidence) : "–"}</b></span>`
      : html`<span class="confidence muted num" title="The definition of this tool uses about this number of tokens of a model's context, at 4 bytes of JSON per token.">${count(t.tokens)} tokens</span>`}
    <p class="description">${t.description || html`<span class="muted">It has no description.</span>`}</p>
    <p class="marks">${marks(t)}</p>
    ${q && t.why ? html`<details ?open=${explained.has(t.id)} @toggle=${(e) => unfold(e, t.id)}><summary><span>Why</span>${t.reason ? html`<span class="reason">${t.reason}</span>` : nothing}</summary>${explained.has(t.id) ? why(t.why) : nothing}</details>` : nothing}
  </div>`;
}

function filters(params) {
  const tags = [...(state.catalog?.capabilities ?? [])].sort((a, b) => b.tools - a.tools || (a.name < b.name ? -1 : 1));
  const q = params.get("q") ?? "";
  return html`<form class="filters" role="search" aria-label="Tools" @submit=${(e) => { e.preventDefault(); clearTimeout(typing); typing = undefined; set("q", e.target.elements.q.value); }}>
    <label class="grow"><span class="sr">What should be done?</span>
      <input type="search" name="q" id="search" maxlength="2000" placeholder="What should be done? “convert 5 km to miles”" autocomplete="off" spellcheck="false"
        .value=${typing ? noChange : live(q)} @input=${type}></label>
    <label><span class="sr">Capability</span><select .value=${live(params.get("capability") ?? "")} @change=${(e) => set("capability", e.target.value)}>
      <option value="">any capability</option>${tags.map((t) => html`<option value=${t.name} ?selected=${params.get("capability") === t.name}>${t.name} (${count(t.tools)})</option>`)}</select></label>
    <label><span class="sr">Server</span><select .value=${live(params.get("server") ?? "")} @change=${(e) => set("server", e.target.value)}>
      <option value="">any server</option>${state.order.map((s) => html`<option value=${s} ?selected=${params.get("server") === s}>${s}</option>`)}</select></label>
  </form>`;
}

function verdict(ranking, q) {
  const n = ranking.fitting, shown = ranking.tools.length;
  if (q && !ranking.sure) return html`<p class="verdict warned">${icon("warn")}<span>${ranking.abstained ? "No tool fits." : "No tool is a sure match."} ${n ? "These are the nearest:" : ""}</span></p>`;
  const all = n < ranking.total ? ` of ${plural(ranking.total, "tool")}` : ` ${n === 1 ? "tool" : "tools"}`;
  return html`<p class="verdict muted">${shown < n ? `${count(shown)} of ${plural(n, "tool")} shown; search to narrow it` : `${count(n)}${all}`}${q ? ", the best first" : ""}</p>`;
}

function list(params, chosen) {
  const { ranking, error } = search;
  if (error) return empty(error);
  if (!ranking) return html`<p class="verdict muted">Searching …</p>`;
  const q = params.get("q");
  const some = ranking.tools;
  if (!some.length) {
    return state.catalog?.tools ? empty(q ? `No tool fits “${q}”.` : "No tool fits these filters.", html`<p>Try other words, or drop the filters: <a href="#tools">all tools</a>.</p>`)
      : empty("There are no tools yet.", html`<p>They appear as servers start. <a href="#servers">Show the servers.</a></p>`);
  }
  return html`${verdict(ranking, q)}
    <div role="list" aria-label="Tools" class="hits" aria-busy=${!!search.running}>${repeat(some, (t) => t.id, (t) => html`<div role="listitem">${hit(t, params, chosen)}</div>`)}</div>
    ${some.length < Math.min(ranking.fitting, most) ? html`<button type="button" class="all" @click=${() => { search.limit = Math.min(most, search.limit + 4 * step); changed(); }}>Show more (${count(ranking.fitting)} in all)</button>` : nothing}`;
}

/** tools draws the view. */
export function tools(params) {
  want(params);
  const chosen = params.get("tool");
  const { router } = state;
  return html`<div class="panes ${chosen ? "with-detail" : ""}">
    <section class="pane list" aria-label="Search">${filters(params)}${list(params, chosen)}</section>
    <section class="pane detail" aria-label=${chosen ? "The tool" : "About the tools"}>${chosen
      ? html`<a class="back" href=${link("tools", fromParams(params, { tool: "" }))}>${icon("left")}All tools</a>${detail(chosen)}`
      : html`<div class="empty"><p>Choose a tool to read its schema and to call it.</p>
        ${router ? html`<p>The definitions of all tools use ${count(router.list_tokens)} tokens of a model's context. The definitions that clients see in ${router.mode} mode use ${count(router.shown_tokens)} tokens.</p>` : nothing}</div>`}
    </section></div>`;
}
