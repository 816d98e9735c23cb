// JSON that keeps its numbers. JSON.parse would round 9007199254740993 and forget that
// 1.10 was written so; what is shown here and sent on has to be what was given.

/** A number that JavaScript's own would not give back as it was written. */
export class Exact {
  /** @param {string} text */
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}

/** number reads the text of a JSON number. */
export function number(text) {
  const n = Number(text);
  return String(n) === text ? n : new Exact(text);
}

/** isNumber reports whether a text is a JSON number. */
export const isNumber = (text) => /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text);

const maxDepth = 500;

/**
 * parse reads JSON. Objects have no prototype, so that any key is only a key.
 * @param {string} text
 */
export function parse(text) {
  let at = 0;
  const token = /[ \t\n\r]*(?:([{}[\]:,])|(")|(-?\d[\d.eE+-]*)|(true|false|null))/y;
  const fail = (what) => { throw new SyntaxError(`${what} at ${place(text, at)}`); };
  const next = () => {
    token.lastIndex = at;
    const m = token.exec(text);
    if (!m) {
      at += /^[ \t\n\r]*/.exec(text.slice(at))[0].length;
      fail(at >= text.length ? "it ends too early" : `unexpected ${text[at]}`);
    }
    at = token.lastIndex;
    if (m[2]) m[2] = string(at - 1);
    return m;
  };
  // Not by a regular expression: it would be out of stack in a string of megabytes.
  const string = (start) => {
    for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
      let slashes = 0;
      while (text[end - 1 - slashes] === "\\") slashes++;
      if (slashes % 2) continue;
      at = end + 1;
      return text.slice(start, at);
    }
    at = text.length;
    return fail("a string without an end");
  };
  const value = (m, depth) => {
    if (depth > maxDepth) fail("nested too deep");
    const [, mark, string, digits, word] = m;
    if (string) try { return JSON.parse(string); } catch { fail("a bad string"); }
    if (digits) return isNumber(digits) ? number(digits) : fail("a bad number");
    if (word) return word === "null" ? null : word === "true";
    if (mark === "{") {
      const object = Object.create(null);
      for (let m = next(); m[1] !== "}";) {
        if (!m[2]) fail("a name in quotes should be here");
        let name;
        try { name = JSON.parse(m[2]); } catch { fail("a bad string"); }
        if (next()[1] !== ":") fail("a colon should be here");
        object[name] = value(next(), depth + 1);
        m = next();
        if (m[1] === ",") { m = next(); if (m[1] === "}") fail("a comma too many"); }
        else if (m[1] !== "}") fail("a comma should be here");
      }
      return object;
    }
    if (mark === "[") {
      const array = [];
      for (let m = next(); m[1] !== "]";) {
        array.push(value(m, depth + 1));
        m = next();
        if (m[1] === ",") { m = next(); if (m[1] === "]") fail("a comma too many"); }
        else if (m[1] !== "]") fail("a comma should be here");
      }
      return array;
    }
    return fail(`unexpected ${mark}`);
  };
  const result = value(next(), 0);
  if (text.slice(at).trim()) fail("something comes after the end");
  return result;
}

function place(text, at) {
  const before = text.slice(0, at).split("\n");
  return `line ${before.length}, column ${before.at(-1).length + 1}`;
}

/**
 * print writes what parse has read, or any plain value.
 * @param {unknown} value
 * @param {string} [indent] one level's; "" for all in one line
 */
export function print(value, indent = "", before = "") {
  if (value instanceof Exact) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const array = Array.isArray(value);
  const inner = before + indent;
  const parts = array
    ? value.map((v) => print(v, indent, inner))
    : Object.entries(value).filter(([, v]) => v !== undefined)
        .map(([k, v]) => `${JSON.stringify(k)}:${indent && " "}${print(v, indent, inner)}`);
  const [open, close] = array ? "[]" : "{}";
  if (!parts.length) return open + close;
  if (!indent) return open + parts.join(",") + close;
  const line = open + parts.join(", ") + close;
  if (array && line.length <= 60 && value.every((v) => v === null || typeof v !== "object" || v instanceof Exact)) return line;
  return `${open}\n${inner}${parts.join(`,\n${inner}`)}\n${before}${close}`;
}

/** words is any value as text: a string as it is, nothing as "". */
export const words = (v) => (typeof v === "string" ? v : v === undefined || v === null ? "" : print(v));

/** isObject reports whether a value is a JSON object. */
export const isObject = (v) => v !== null && typeof v === "object" && !Array.isArray(v) && !(v instanceof Exact);
