// One tool: its definition, and a form to call it.
import { guard } from "./vendor/lit-html/directives/guard.js";
import { state, ask, changed, Refusal } from "./store.js";
import { html, nothing, icon, plural, copyable, confirmed, empty, marks } from "./ui.js";
import { link } from "./route.js";
import { parse, print } from "./json.js";
import { Form } from "./form.js";
import { fields } from "./fields.js";
import { result, widened } from "./result.js";

/**
 * A Card is a tool that was opened. It stays, with what was typed, until the page is left.
 * @typedef {{id: string, catalogs: number, tool?: object, error: string, form?: Form,
 *   running?: {since: number, stop: AbortController}, answer?: object, refusal: string}} Card
 */

/** @type {Map<string, Card>} */
const cards = new Map();

/** card returns what is known of a tool, and asks for what is not. */
function card(id) {
  let c = cards.get(id);
  if (!c) cards.set(id, c = { id, catalogs: -1, error: "", refusal: "" });
  if (c.catalogs !== state.catalogs) {
    c.catalogs = state.catalogs;
    ask(`dashboard/tool?id=${encodeURIComponent(id)}`).then((text) => {
      const tool = parse(text);
      const schema = print(tool.input_schema);
      if (!c.form || c.schema !== schema) c.form = new Form(tool.input_schema, changed);
      Object.assign(c, { tool, schema, error: "" });
    }).catch((e) => { c.error = e.status === 404 ? "This tool does not exist, or no longer exists." : e.message; }).finally(changed);
  }
  return c;
}

async function run(c, event) {
  event.preventDefault();
  if (c.running) return;
  const text = c.form.text();
  if (text === undefined) { // it says where
    changed();
    requestAnimationFrame(() => requestAnimationFrame(() => event.target.querySelector("[aria-invalid=true]")?.focus()));
    return;
  }
  const leave = () => confirmed({
    title: `Call ${c.tool.name}?`, yes: "Call it",
    body: html`<p>This tool may change or destroy something on <strong>${c.tool.server}</strong>. Its server declares it as destructive, or does not declare whether it is safe.</p>
      <h3>Arguments</h3><pre class="log" tabindex="0" role="region" aria-label="Arguments">${print(parse(text), "  ")}</pre>`,
  });
  if (c.tool.asks && !(await leave())) return;
  await send(c, text, c.tool.asks).catch(async (e) => {
    if (e.status === 409 && !c.tool.asks && await leave()) return send(c, text, true);
    throw e;
  }).catch((e) => { c.refusal = e.name === "AbortError" ? "You stopped waiting. The server may still carry out the call." : e.message; });
  c.running = undefined;
  changed();
}

async function send(c, text, sure) {
  const stop = new AbortController();
  Object.assign(c, { running: { since: performance.now(), stop }, refusal: "", answer: undefined });
  changed();
  // Built by hand, so that the arguments are sent exactly as they were written.
  const body = `{"tool":${JSON.stringify(c.id)},"arguments":${text},"confirmed":${sure}}`;
  const answer = await ask("dashboard/call", body, stop.signal);
  try {
    c.answer = parse(answer).result;
  } catch {
    throw new Refusal(0, "The router's answer is not valid JSON; read it with 'metarouter call'.");
  }
  requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById("result")?.scrollIntoView({ block: "nearest" })));
}

function call(c) {
  const { running } = c;
  return html`<form class="call" novalidate aria-label="Call ${c.tool.name}" @submit=${(e) => run(c, e)}
      @keydown=${(e) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) e.currentTarget.requestSubmit(); }}>
    <h3>Call it</h3>
    ${fields(c.form)}
    <p class="buttons">
      <button class="primary" aria-disabled=${!!running}>${running ? html`${icon("wait", "turns")}Running …` : "Call"}</button>
      ${running ? html`<button type="button" @click=${() => running.stop.abort()}>Stop waiting</button>` : nothing}
      ${c.tool.asks ? html`<span class="muted">${icon("warn")}The page asks before it calls this tool, since the tool may change something.</span>` : nothing}
    </p>
    <p class="muted note">A call from this page is an administrator's: no profile limits it, and it does not wait for an approval.</p>
  </form>
  <p class="sr" role="status">${running ? "The call is running." : c.refusal ? `The call failed. ${c.refusal}` : c.answer ? (c.answer.isError === true ? "The tool failed." : "The tool has answered.") : ""}</p>
  <div id="result">
    ${c.refusal ? html`<div class="result bad"><h3>${icon("cross", "bad")}The call failed</h3><p>${c.refusal}</p></div>` : nothing}
    ${c.answer ? guard([c.answer, widened()], () => result(c.answer)) : nothing}
  </div>`;
}

const json = (title, value) => value === undefined ? nothing : html`<details class="json"><summary>${title}</summary>
  <pre class="log" tabindex="0" role="region" aria-label=${title}>${guard([value], () => print(value, "  "))}</pre></details>`;

/** detail draws a tool. */
export function detail(id) {
  const c = card(id);
  if (c.error) return empty(c.error);
  if (!c.tool) return html`<p class="muted">Asking for ${id} …</p>`;
  const t = c.tool;
  const s = state.servers.get(t.server);
  return html`<article class="tool" aria-labelledby="tool">
    <h2 id="tool">${t.title || t.name}</h2>
    <dl class="names"><div><dt>Name</dt><dd>${copyable(t.exposed_name, "name")}</dd></div>
      <div><dt>Server</dt><dd><a href=${link("servers", { server: t.server })}>${t.server}</a>${s && !["ready", "idle"].includes(s.state) ? html` <span class="warned">is ${s.state}</span>` : nothing}</dd></div>
      <div><dt>Cost</dt><dd title="The definition of this tool uses about this number of tokens of a model's context, at 4 bytes of JSON per token.">${plural(Number(t.tokens), "token")}</dd></div></dl>
    <p class="marks">${marks(t)}</p>
    <p class="long">${t.description || html`<span class="muted">The tool has no description.</span>`}</p>
    ${t.suspect?.length ? html`<div class="changes"><h3>${icon("warn")}Tells a model what to do beyond its use, or hid characters from you</h3><ul>${t.suspect.map((s) => html`<li>${s}</li>`)}</ul></div>` : nothing}
    ${t.repairs?.length ? html`<div class="repairs"><h3>Repaired by the router</h3><ul>${t.repairs.map((r) => html`<li>${r}</li>`)}</ul></div>` : nothing}
    ${t.changed ? html`<div class="changes"><h3>${icon("warn")}${t.held ? "Hidden from clients until you have seen it" : "Changed since you last looked"}</h3>
      ${t.changes?.length ? html`<ul>${t.changes.map((line) => html`<li>${line}</li>`)}</ul>` : html`<p>It is new, or the definition before was not kept.</p>`}
      <p><a href=${link("servers", { server: t.server })}>Mark the changes of ${t.server} as seen</a></p></div>` : nothing}
    ${call(c)}
    <div class="schemas">${json("Schema of the arguments", t.input_schema)}${json("Schema of the result", t.output_schema)}${json("Definition, as the server gave it", t.definition)}</div>
  </article>`;
}
