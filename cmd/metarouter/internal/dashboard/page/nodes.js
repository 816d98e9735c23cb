// Nodes: the routers of the cluster, and what they share.
import { repeat } from "./vendor/lit-html/directives/repeat.js";
import { state, now } from "./store.js";
import { html, nothing, icon, count, plural, duration, ago, copyable, empty } from "./ui.js";
import { link } from "./route.js";

const maxNamed = 6; // servers

const looks = {
  self: { word: "this node", tone: "ok", icon: "check" },
  alive: { word: "alive", tone: "ok", icon: "check" },
  lost: { word: "lost", tone: "bad", icon: "cross" },
  untrusted: { word: "not trusted", tone: "off", icon: "off" },
};

const lookOf = (n) => looks[n.self ? "self" : !n.trusted ? "untrusted" : n.alive ? "alive" : "lost"];

/** serversOf names what a node shares. Those that this router uses lead to their row. */
function serversOf(n) {
  if (!n.trusted) return html`<span class="muted">not looked at</span>`;
  if (!n.servers.length) return html`<span class="muted">nothing</span>`;
  const more = n.servers.length - maxNamed;
  const one = (name) => {
    const here = n.self ? name : `${name}@${n.node}`;
    return state.servers.has(here) ? html`<a href=${link("servers", { server: here })}>${name}</a>` : html`<span class="muted" title="This router does not use the server.">${name}</span>`;
  };
  return html`${n.servers.slice(0, maxNamed).map((name, i) => html`${i ? ", " : ""}${one(name)}`)}${more > 0 ? ` and ${count(more)} more` : ""}`;
}

function row(n) {
  const l = lookOf(n);
  return html`<tr role="row">
    <td role="cell" class="what"><b>${n.node || "no name"}</b> <span class="public">${copyable(n.key, "key", `${n.key.slice(0, 8)}…${n.key.slice(-8)}`)}</span>
      ${n.problem ? html`<p class="warned">${n.problem}</p>` : nothing}${n.trusted ? nothing : html`<p class="muted">If it is yours: <code>metarouter nodes trust ${n.key.slice(0, 8)}… --write</code></p>`}</td>
    <td role="cell" class="is"><span class="state ${l.tone}">${icon(l.icon, l.tone)}<span>${l.word}${n.alive || !n.last_seen ? nothing : ` for ${ago(n.last_seen, now())}`}</span></span></td>
    <td role="cell" class="sees">${serversOf(n)}</td>
    <td role="cell" class="version">${n.version}</td>
    <td role="cell" class="took num">${n.self || !n.alive || !n.trusted ? nothing : html`<span title="How long the node took to answer the last ping.">${duration(n.latency_ms)}</span>`}</td>
  </tr>`;
}

/** connection says how this router is connected to NATS. */
function connection(c) {
  if (!c.connected) return html`<p class="bad">${icon("cross", "bad")} There is no connection to NATS, so no other node can be reached. The router tries again by itself; <code>metarouter doctor</code> says what is wrong.</p>`;
  return html`<p class="muted">Connected to NATS ${c.server} at ${c.url}.</p>
    ${c.jetstream ? nothing : html`<p class="warned">${icon("warn")} JetStream does not answer: calls go on, but changes of servers and tools are not seen.</p>`}`;
}

/** nodes draws the view. */
export function nodes() {
  const c = state.cluster;
  if (!c) return empty("This router is in no cluster.", html`<p>Write <code>"cluster": {"urls": ["nats://hub:4222"]}</code> into <code>"metarouter"</code> of the configuration to use servers of other machines.</p>`);
  return html`<section aria-label="Nodes of the cluster">${connection(c)}
    ${c.problems?.map((p) => html`<p class="warned">${icon("warn")} ${p}</p>`) ?? nothing}
    <table role="table" class="calls nodes"><caption class="sr">Nodes of the cluster, this one first</caption>
      <thead role="rowgroup"><tr role="row">${["Node", "State", "Shares", "Version", "Latency"].map((h) => html`<th role="columnheader" scope="col">${h}</th>`)}</tr></thead>
      <tbody role="rowgroup">${repeat(c.nodes, (n) => n.key, row)}</tbody></table>
    ${c.total > c.nodes.length ? html`<p class="muted">These are ${count(c.nodes.length)} of ${plural(c.total, "node")}; <code>metarouter nodes</code> lists all.</p>` : nothing}
  </section>`;
}
