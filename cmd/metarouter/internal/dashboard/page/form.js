// From the schema of a tool's arguments to a form, and from the form to arguments. What
// the form can't say is edited as JSON: a part of it, or all.
import { parse, print, number, isNumber, isObject, Exact } from "./json.js";

/**
 * A Field is one value of the arguments, as it is being typed.
 * @typedef {object} Field
 * @property {"text"|"number"|"integer"|"boolean"|"choice"|"array"|"object"|"json"} kind
 * @property {object} schema with its references resolved
 * @property {string} id of the element, within the page
 * @property {string} name
 * @property {boolean} required
 * @property {string} text what was typed; of a choice the index; "" is nothing
 * @property {string} error what is wrong with it, in words
 * @property {Field[]} fields of an object or array
 * @property {object} extra members that the schema does not name
 */

const deepest = 3; // objects within objects; below them JSON is easier
const mostFields = 1000; // of a form, and of an object in it; the others are written as JSON
const mostChoices = 1000; // of a list; a longer one is typed
const mostSteps = 20000; // to resolve the schemas of all fields of a form
const absent = Symbol("absent");
let ids = 0;

/** schemaAt follows a reference within the schema; others are left alone. */
function schemaAt(root, ref) {
  if (!ref.startsWith("#")) return undefined;
  let at = root;
  if (ref !== "#" && !ref.startsWith("#/")) return undefined;
  for (const part of ref.split("/").slice(1)) {
    let name;
    try { name = decodeURIComponent(part); } catch { return undefined; }
    at = isObject(at) || Array.isArray(at) ? at[name.replaceAll("~1", "/").replaceAll("~0", "~")] : undefined;
  }
  return at;
}

const texts = ["title", "description", "format", "pattern"];
const numbers = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"];

/** sane leaves out keywords whose values are not of their type. */
function sane(schema) {
  const s = { ...schema };
  for (const key of texts) if (typeof s[key] !== "string") delete s[key];
  for (const key of numbers) if (typeof s[key] !== "number" && !(s[key] instanceof Exact)) delete s[key];
  return s;
}

/** resolve makes a schema simple where it is so at heart: a reference, or "this or null". Its steps are counted: branches of branches may have no end. */
function resolve(schema, root, hops = 0, steps = { left: 200 }) {
  if (!isObject(schema) || hops > 20 || steps.left <= 0) return {};
  steps.left -= 1 + Object.keys(schema).length / 50; // its members are copied
  const { $ref, ...rest } = schema;
  if (typeof $ref === "string") {
    const target = schemaAt(root, $ref);
    return target ? resolve({ ...target, ...rest }, root, hops + 1, steps) : rest;
  }
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((t) => t !== "null");
    if (types.length === 1) return resolve({ ...schema, type: types[0] }, root, hops + 1, steps);
  }
  for (const key of ["anyOf", "oneOf", "allOf"]) {
    if (!Array.isArray(schema[key])) continue;
    const { [key]: branches, ...outer } = schema;
    const real = branches.map((b) => resolve(b, root, hops + 1, steps)).filter((b) => b.type !== "null");
    if (real.length === 1) return resolve({ ...real[0], ...outer }, root, hops + 1, steps);
    const values = real.map((b) => ("const" in b ? [b.const] : b.enum));
    if (key !== "allOf" && real.length && values.every(Array.isArray)) return { ...outer, enum: values.flat() };
  }
  return schema;
}

function kindOf(schema, depth) {
  if ("const" in schema || (Array.isArray(schema.enum) && schema.enum.length <= mostChoices)) return "choice";
  if (schema.anyOf || schema.oneOf || schema.allOf) return depth === 0 && isObject(schema.properties) ? "object" : "json";
  switch (schema.type) {
    case "string": return "text";
    case "number": case "integer": case "boolean": return schema.type;
    case "array": return isObject(schema.items) && !schema.prefixItems && depth < deepest ? "array" : "json";
    case "object": case undefined:
      return depth === 0 || (isObject(schema.properties) && depth < deepest) ? "object" : "json";
    default: return "json";
  }
}

/** choices are the values that a choice may have. */
export const choices = (schema) => schema.enum ?? ["const" in schema ? schema.const : null];

/** A Form is the arguments of a tool, as they are being written. */
export class Form {
  /**
   * @param {object} schema of the arguments
   * @param {() => void} changed is called when the form has to be drawn again
   */
  constructor(schema, changed) {
    this.schema = isObject(schema) ? schema : {};
    this.changed = changed;
    this.made = 0; // fields
    this.steps = mostSteps; // that may still be taken
    this.root = this.field("", this.schema, true, true, 0);
    this.json = undefined; // the text, while all is edited as JSON
    this.error = ""; // of that text
  }

  /** field makes a field; sure means that it will be sent, so that its default can stand in it. */
  field(name, schema, required, sure, depth) {
    const steps = { left: Math.min(200, this.steps) };
    this.steps -= steps.left;
    const s = sane(resolve(schema, this.schema, 0, steps));
    this.steps += steps.left;
    const f = { kind: ++this.made > mostFields && depth > 0 ? "json" : kindOf(s, depth), schema: s, id: `field-${ids++}`, name, required, depth, text: "", error: "", fields: [], extra: Object.create(null) };
    if (f.kind === "object") {
      const needed = new Set(Array.isArray(s.required) ? s.required : []);
      f.fields = Object.entries(s.properties ?? {}).slice(0, mostFields).map(([k, v]) => this.field(k, v, needed.has(k), sure && needed.has(k), depth + 1));
    }
    if (sure && s.default !== undefined && depth > 0) this.fill(f, s.default);
    else if (f.kind === "choice" && required && choices(s).length === 1) f.text = "0";
    else if (f.kind === "boolean" && required) f.text = "false";
    return f;
  }

  /** add puts another element into an array. */
  add(f, value = absent) {
    const element = this.field("", f.schema.items, true, true, f.depth + 1);
    if (value !== absent) this.fill(element, value);
    f.fields.push(element);
    return element;
  }

  /** fill sets a field to a value; if it can't hold that, it becomes a field for JSON. */
  fill(f, value) {
    const isAnyNumber = typeof value === "number" || value instanceof Exact;
    if (f.kind === "text" && typeof value === "string") f.text = value;
    else if ((f.kind === "number" || f.kind === "integer") && isAnyNumber) f.text = String(value);
    else if (f.kind === "boolean" && typeof value === "boolean") f.text = String(value);
    else if (f.kind === "choice" && choices(f.schema).some((c) => print(c) === print(value))) {
      f.text = String(choices(f.schema).findIndex((c) => print(c) === print(value)));
    } else if (f.kind === "array" && Array.isArray(value)) {
      f.fields = [];
      for (const v of value) this.add(f, v);
    } else if (f.kind === "object" && isObject(value)) {
      f.extra = Object.create(null);
      const named = new Map(f.fields.map((x) => [x.name, x]));
      for (const [k, v] of Object.entries(value)) {
        if (named.has(k)) this.fill(named.get(k), v);
        else f.extra[k] = v;
      }
    } else {
      f.kind = "json";
      f.text = print(value, "  ");
    }
  }

  /** text is the arguments as JSON; undefined if something is wrong, which the fields then say. */
  text() {
    if (this.json !== undefined) {
      const value = this.parsed();
      return value && print(value);
    }
    const wrong = [];
    const value = read(this.root, wrong);
    return wrong.length ? undefined : print(value);
  }

  parsed() {
    try {
      const value = parse(this.json.trim() || "{}");
      this.error = isObject(value) ? "" : "The arguments must be an object: { … }";
      return this.error ? undefined : value;
    } catch (e) {
      this.error = `This is not valid JSON: ${e.message}.`;
      return undefined;
    }
  }

  /** asJSON changes between the fields and one text for all; a text that is no JSON stays. */
  asJSON(on) {
    if (on) {
      this.json = print(read(this.root, []), "  ");
      this.error = "";
    } else {
      const value = this.parsed();
      if (value) {
        this.root = this.field("", this.schema, true, false, 0);
        this.fill(this.root, value);
        this.json = undefined;
      }
    }
    this.changed();
  }
}

/** touched reports whether anything was typed into a field. */
export function touched(f) {
  if (f.kind === "object") return f.fields.some(touched) || Object.keys(f.extra).length > 0;
  if (f.kind === "array") return f.fields.length > 0;
  const given = f.required && ((f.kind === "boolean" && f.text === "false") || (f.kind === "choice" && choices(f.schema).length === 1));
  return f.text !== "" && !given;
}

/** read is the value of a field, or absent; what is wrong is noted in the fields. */
function read(f, wrong) {
  f.error = "";
  try {
    return value(f, wrong);
  } catch (e) {
    f.error = e.message;
    wrong.push(f);
    return absent;
  }
}

function value(f, wrong) {
  const { schema, text } = f;
  if (f.kind === "object") {
    if (!f.required && !touched(f)) return absent;
    const object = Object.create(null);
    for (const x of f.fields) {
      const v = read(x, wrong);
      if (v !== absent) object[x.name] = v;
    }
    return Object.assign(object, f.extra);
  }
  if (f.kind === "array") {
    if (!f.required && !f.fields.length) return absent;
    if (f.fields.length < (schema.minItems ?? 0)) throw new Error(`Add at least ${schema.minItems}.`);
    if (f.fields.length > (schema.maxItems ?? Infinity)) throw new Error(`Keep at most ${schema.maxItems}.`);
    return f.fields.map((x) => read(x, wrong)).filter((v) => v !== absent);
  }
  if (text === "") {
    if (!f.required) return absent;
    throw new Error(f.kind === "text" ? "A value is required. (To send an empty text, edit as JSON.)" : "A value is required.");
  }
  switch (f.kind) {
    case "boolean": return text === "true";
    case "choice": return choices(schema)[Number(text)];
    case "json":
      try { return parse(text); } catch (e) { throw new Error(`This is not valid JSON: ${e.message}.`); }
    case "number": case "integer": return checkedNumber(f.kind, text.trim(), schema);
    default: return checkedText(text, schema);
  }
}

function checkedNumber(kind, text, schema) {
  if (kind === "integer" && !/^-?(0|[1-9]\d*)$/.test(text)) throw new Error("Write a whole number.");
  if (!isNumber(text)) throw new Error("Write a number, such as 1.5.");
  const n = Number(text);
  for (const [bound, fits, word] of [
    ["minimum", (m) => n >= m, "at least"], ["maximum", (m) => n <= m, "at most"],
    ["exclusiveMinimum", (m) => n > m, "more than"], ["exclusiveMaximum", (m) => n < m, "less than"],
  ]) if (typeof schema[bound] === "number" && !fits(schema[bound])) throw new Error(`The number must be ${word} ${schema[bound]}.`);
  return number(text);
}

function checkedText(text, schema) {
  const length = [...text].length;
  if (length < (schema.minLength ?? 0)) throw new Error(`Write at least ${schema.minLength} characters.`);
  if (length > (schema.maxLength ?? Infinity)) throw new Error(`Write at most ${schema.maxLength} characters, not ${length}.`);
  return text; // the router checks its pattern: one that a stranger wrote may take the browser for ever
}
