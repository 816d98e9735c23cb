// What a tool has answered. All of it comes from strangers, and is shown as text.
import { html, nothing, icon, size, duration, copyable, plural } from "./ui.js";
import { parse, print, words, isObject } from "./json.js";
import { changed } from "./store.js";
import { shown } from "./plain.js";

const longest = 50_000; // characters of a text that are shown at first
const whole = new WeakSet(); // contents that are shown whole
let widenings = 0;

/** widened changes when a content is to be shown whole. */
export const widened = () => widenings;

function widen(owner) {
  whole.add(owner);
  widenings++;
  changed();
}

/** pretty prints a text that is a JSON object or array; others stay as they are. */
function pretty(text) {
  if (!/^\s*[[{]/.test(text)) return text;
  try { return print(parse(text), "  "); } catch { return text; }
}

function text(value, label, owner) {
  const all = shown(pretty(words(value)));
  const cut = all.length > longest && !whole.has(owner);
  return html`<pre class="log" tabindex="0" role="region" aria-label=${label}>${cut ? all.slice(0, longest) : all}</pre>
    ${cut ? html`<p class="muted">The first ${size(longest)} of ${size(all.length)}. <button type="button" @click=${() => widen(owner)}>Show all</button></p>` : nothing}`;
}

const bytes = (base64) => Math.floor((words(base64).length * 3) / 4);

const images = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/; // an SVG runs nothing within <img>
const isBase64 = (text) => !/[^A-Za-z0-9+/=\s]/.test(text);

function address(said) {
  const uri = words(said);
  let safe = false;
  try { safe = ["http:", "https:"].includes(new URL(uri).protocol); } catch { /* no link */ }
  return safe ? html`<a href=${uri} target="_blank" rel="noopener noreferrer">${shown(uri)}</a>` : html`<code>${shown(uri)}</code>`;
}

/** content draws a part. What it says may be of any type, and only text is drawn. */
function content(c, i) {
  const label = `Result, part ${i + 1}`;
  if (!isObject(c)) return text(print(c, "  "), label, {});
  const mime = words(c.mimeType), data = words(c.data);
  switch (c.type) {
    case "text":
      return text(c.text ?? "", label, c);
    case "image":
      return images.test(mime) && isBase64(data)
        ? html`<figure><img src="data:${mime};base64,${data}" alt="An image in the tool's result"><figcaption class="muted">${shown(mime)}, ${size(bytes(data))}</figcaption></figure>`
        : html`<p class="muted">An image of a kind that is not shown: ${shown(mime)}</p>`;
    case "audio":
      return html`<p class="muted">Audio, ${shown(mime)}, ${size(bytes(data))}: not played here.</p>`;
    case "resource_link":
      return html`<p class="resource"><strong>${shown(words(c.title ?? c.name))}</strong> ${address(c.uri)}${mime ? html` <span class="muted">${shown(mime)}</span>` : nothing}</p>
        ${c.description ? html`<p class="muted">${shown(words(c.description))}</p>` : nothing}`;
    case "resource": {
      const r = isObject(c.resource) ? c.resource : {};
      return html`<p class="resource">${address(r.uri)} <span class="muted">${shown(words(r.mimeType))}</span></p>
        ${r.text !== undefined ? text(r.text, label, c) : html`<p class="muted">${size(bytes(r.blob ?? ""))} of binary data</p>`}`;
    }
    default:
      return text(print(c, "  "), label, c);
  }
}

/** result draws a CallToolResult. */
export function result(r) {
  if (!isObject(r)) return text(print(r, "  "), "Result", {});
  const meta = isObject(r._meta) ? r._meta : {};
  const parts = Array.isArray(r.content) ? r.content : [];
  const structured = r.structuredContent;
  // Many servers say the same twice: as text for old clients, and as data.
  const twice = structured !== undefined && parts.length === 1 && parts[0]?.type === "text" && pretty(words(parts[0].text)) === print(structured, "  ");
  const took = Number(words(meta.latency_ms) || NaN);
  return html`<div class="result ${r.isError === true ? "bad" : "ok"}">
    <h3>${r.isError === true ? html`${icon("cross", "bad")}The tool failed` : html`${icon("check", "ok")}Result`}</h3>
    <p class="meta">${Number.isFinite(took) ? html`<span>${duration(took)}</span>` : nothing}
      ${Number(words(meta.attempts)) > 1 ? html`<span>${plural(Number(words(meta.attempts)), "attempt")}</span>` : nothing}
      ${meta.repaired ? html`<span>arguments or result repaired</span>` : nothing}${meta.truncated ? html`<span>truncated</span>` : nothing}
      ${typeof meta.trace_id === "string" ? copyable(meta.trace_id, "trace id", `trace ${meta.trace_id.slice(0, 8)}`) : nothing}</p>
    ${twice ? nothing : parts.map(content)}
    ${structured !== undefined ? html`<h4>Structured content</h4>${text(print(structured, "  "), "Structured content", r)}` : nothing}
    ${!parts.length && structured === undefined ? html`<p class="muted">It answered without content.</p>` : nothing}
    <details class="json"><summary>The whole result as JSON</summary>${text(print(r, "  "), "The whole result", parts)}</details>
  </div>`;
}
