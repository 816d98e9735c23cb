// Draws a form.
import { live } from "./vendor/lit-html/directives/live.js";
import { repeat } from "./vendor/lit-html/directives/repeat.js";
import { html, nothing, icon, count } from "./ui.js";
import { print, isObject } from "./json.js";
import { choices, touched } from "./form.js";

const types = { __proto__: null, uri: "url", url: "url", email: "email", date: "date", time: "time", password: "password" };
const examples = { __proto__: null, "date-time": "2026-01-31T12:00:00Z", uri: "https://", email: "name@example.com", uuid: "00000000-0000-0000-0000-000000000000" };
const long = /content|text|body|code|script|query|prompt|message|markdown|html|description|sql|diff|patch/i;
const many = 5; // optional fields, beyond which they are folded

/** limits says in words what a value must be like. */
function limits(s) {
  const say = (key, word) => (s[key] !== undefined && !isObject(s[key]) ? `${word} ${String(s[key]).slice(0, 200)}` : "");
  return [
    say("minimum", "at least"), say("maximum", "at most"), say("exclusiveMinimum", "more than"), say("exclusiveMaximum", "less than"),
    s.minLength > 1 ? `at least ${s.minLength} characters` : "", s.maxLength ? `at most ${s.maxLength} characters` : "",
    s.minItems > 0 ? `at least ${s.minItems}` : "", s.maxItems ? `at most ${s.maxItems}` : "",
    say("pattern", "matches"), s.format && !["date", "uri"].includes(s.format) ? s.format : "",
    s.default !== undefined && s.default !== null ? `default: ${print(s.default).slice(0, 60)}` : "",
  ].filter(Boolean).join(" · ");
}

function control(form, f) {
  const { schema: s } = f;
  const set = (event) => { f.text = event.target.value; f.error = ""; form.changed(); };
  const described = `${f.id}-hint ${f.error ? `${f.id}-error` : ""}`;
  const invalid = f.error ? "true" : nothing;
  const select = (options) => html`<select id=${f.id} .value=${live(f.text)} @change=${set} aria-describedby=${described} aria-invalid=${invalid}>
    ${options.map(([v, word]) => html`<option value=${v} ?selected=${f.text === v}>${word}</option>`)}</select>`;
  switch (f.kind) {
    case "boolean":
      return f.required
        ? html`<input type="checkbox" id=${f.id} .checked=${live(f.text === "true")} aria-describedby=${described}
            @change=${(e) => { f.text = String(e.target.checked); form.changed(); }}>`
        : select([["", "not given"], ["true", "yes"], ["false", "no"]]);
    case "choice":
      return select([["", f.required ? "choose …" : "not given"], ...choices(s).map((c, i) => [String(i), typeof c === "string" ? c : print(c)])]);
    case "number": case "integer":
      return html`<input id=${f.id} inputmode=${f.kind === "integer" ? "numeric" : "decimal"} .value=${live(f.text)} @input=${set} autocomplete="off"
        aria-describedby=${described} aria-invalid=${invalid} aria-required=${f.required}>`;
    case "json":
      return html`<textarea id=${f.id} class="code" rows="3" .value=${live(f.text)} @input=${set} spellcheck="false" placeholder="JSON"
        aria-describedby=${described} aria-invalid=${invalid} aria-required=${f.required}></textarea>`;
    default:
      return (long.test(f.name) || s.maxLength > 200 || f.text.includes("\n")) && !s.format
        ? html`<textarea id=${f.id} rows="2" .value=${live(f.text)} @input=${set} aria-describedby=${described} aria-invalid=${invalid} aria-required=${f.required}></textarea>`
        : html`<input id=${f.id} type=${types[s.format] ?? "text"} .value=${live(f.text)} @input=${set} autocomplete="off" spellcheck="false"
            placeholder=${examples[s.format] ?? nothing} aria-describedby=${described} aria-invalid=${invalid} aria-required=${f.required}>`;
  }
}

const name = (f) => html`<span class="field-name">${f.name || f.schema.title || "value"}</span>${f.required ? html` <span class="required">required</span>` : nothing}`;

const hint = (f) => {
  const all = [f.schema.description?.slice(0, 5000), limits(f.schema)].filter(Boolean);
  return html`<p class="hint" id="${f.id}-hint">${all.map((x) => html`<span>${x}</span>`)}</p>`;
};

const error = (f) => (f.error ? html`<p class="field-error" id="${f.id}-error">${icon("cross", "bad")}${f.error}</p>` : nothing);

function field(form, f) {
  if (f.kind === "object") {
    return html`<fieldset><legend>${name(f)}</legend>${f.schema.description ? hint(f) : nothing}${members(form, f)}${error(f)}</fieldset>`;
  }
  if (f.kind === "array") return html`<fieldset aria-describedby="${f.id}-hint"><legend>${name(f)}</legend>${hint(f)}${elements(form, f)}${error(f)}</fieldset>`;
  return html`<div class="field ${f.kind}"><label for=${f.id}>${name(f)}</label>${control(form, f)}${hint(f)}${error(f)}</div>`;
}

function elements(form, f) {
  const remove = (x) => { f.fields.splice(f.fields.indexOf(x), 1); form.changed(); };
  const add = () => {
    const x = form.add(f);
    form.changed();
    requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById(x.id)?.focus()));
  };
  return html`${repeat(f.fields, (x) => x.id, (x, i) => html`<div class="element">
      ${x.kind === "object" || x.kind === "array" ? field(form, { ...x, name: `${f.name} ${i + 1}`, required: false })
        : html`<label class="sr" for=${x.id}>${f.name} ${i + 1}</label>${control(form, x)}<span class="sr" id="${x.id}-hint"></span>`}
      <button type="button" @click=${() => remove(x)} aria-label="Remove ${f.name} ${i + 1}">Remove</button>${x.kind === "object" ? nothing : error(x)}</div>`)}
    <button type="button" class="add" @click=${add} aria-label="Add to ${f.name}">Add</button>`;
}

function members(form, f) {
  const optional = f.fields.filter((x) => !x.required);
  const folded = f.depth === 0 && optional.length > many && optional.length < f.fields.length;
  const first = folded ? f.fields.filter((x) => x.required) : f.fields;
  const more = Object.keys(f.extra);
  return html`${first.map((x) => field(form, x))}
    ${folded ? html`<details class="optional" ?open=${optional.some((x) => touched(x) || x.error)}><summary>${count(optional.length)} optional arguments</summary>
      ${optional.map((x) => field(form, x))}</details>` : nothing}
    ${more.length ? html`<p class="hint">Also sent, as written in JSON: ${more.join(", ")}</p>` : nothing}`;
}

/** fields draws all of a form. */
export function fields(form) {
  const asJSON = form.json !== undefined;
  return html`<label class="switch"><input type="checkbox" .checked=${live(asJSON)} @change=${(e) => form.asJSON(e.target.checked)}> Edit as JSON</label>
    ${asJSON ? html`<div class="field"><label for="json"><span class="field-name">Arguments, as JSON</span></label>
        <textarea id="json" class="code" rows=${Math.min(16, Math.max(5, form.json.split("\n").length + 1))} spellcheck="false" .value=${live(form.json)}
          aria-invalid=${form.error ? "true" : nothing} aria-describedby="json-error"
          @input=${(e) => { form.json = e.target.value; form.error = ""; form.changed(); }}></textarea>
        <p class="field-error" id="json-error">${form.error ? html`${icon("cross", "bad")}${form.error}` : nothing}</p></div>`
      : form.root.fields.length || Object.keys(form.root.extra).length ? members(form, form.root) : html`<p class="muted">The tool declares no arguments.</p>`}`;
}
