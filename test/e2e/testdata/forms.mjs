// Tests json.js and form.js of the dashboard's page, whose folder is the argument.
import assert from "node:assert/strict";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const load = (file) => import(pathToFileURL(join(process.argv[2], file)));
const { parse, print } = await load("json.js");
const { Form } = await load("form.js");

// What is read is written as it was, but for space.
for (const text of [
  "{}", "[]", '""', "null", "true", "0", "-0", "1.10", "1e400", "9007199254740993", "12345678901234567890", '{"a":[1,2.50,{"b":null}]}',
  '{"__proto__":{"x":1},"constructor":2}', '"\\u2028 é \\""', '[[[[]]],{"":""}]',
]) assert.equal(print(parse(text)), text.replace("\\u2028", "\u2028"), text);
assert.equal(print(parse(' { "a" : [ 1 ,\n2 ] } '), "  "), '{\n  "a": [1, 2]\n}');

// Strings of megabytes are read, whatever is in them.
for (const part of ["x", "\\n", '\\"', "\\\\", "é"]) {
  const text = `{"a":"${part.repeat(3_000_000)}"}`;
  assert.equal(print(parse(text)).length, text.length, part);
}

// What is no JSON is refused, with its place.
for (const [text, place] of [
  ["", "line 1, column 1"], ["{", "line 1, column 2"], ["[1,]", ""], ['{"a":1,}', ""], ["01", ""], ["1.", ""], ["+1", ""], ["'a'", "line 1, column 1"],
  ['{"a" 1}', ""], ["[1 2]", ""], ['"\\x"', ""], ['"a', "line 1, column 3"], ['{"\\x":1}', ""], ['"a\\"', ""], ["nul", ""], ["1 2", "line 1, column 2"], ['{\n  "a": }', "line 2"], ["{a:1}", ""], ["[".repeat(100000), ""],
]) {
  assert.throws(() => JSON.parse(text), SyntaxError, text);
  assert.throws(() => parse(text), (e) => e instanceof SyntaxError && e.message.includes(place), text);
}

/** fields finds the fields of a form by their paths. */
function typed(form, values) {
  for (const [path, text] of Object.entries(values)) {
    let f = form.root;
    for (const name of path.split(".")) {
      f = f.kind === "array" ? (f.fields[Number(name)] ?? form.add(f)) : f.fields.find((x) => x.name === name);
      assert.ok(f, path);
    }
    f.text = text;
  }
  return form;
}

const make = (schema) => new Form(parse(JSON.stringify(schema)), () => {});
const object = (properties, required = []) => ({ type: "object", properties, required });

const string = { type: "string" }, integer = { type: "integer" };
for (const [name, schema, values, want] of [
  ["nothing", {}, {}, "{}"],
  ["not given", object({ a: string, b: integer, c: { type: "boolean" }, d: { type: "array", items: string }, e: object({ f: string }, ["f"]) }), {}, "{}"],
  ["texts", object({ a: string }, ["a"]), { a: " x " }, '{"a":" x "}'],
  ["digits", object({ a: integer, b: { type: "number" } }), { a: "9007199254740993", b: "1.10" }, '{"a":9007199254740993,"b":1.10}'],
  ["needed defaults", object({ a: { ...integer, default: 3 }, b: { ...integer, default: 4 } }, ["a"]), {}, '{"a":3}'],
  ["choices", object({ a: { enum: ["x", 2, null] }, b: { const: "k" } }, ["b"]), { a: "1" }, '{"a":2,"b":"k"}'],
  ["booleans", object({ a: { type: "boolean" }, b: { type: "boolean" } }, ["a"]), { b: "true" }, '{"a":false,"b":true}'],
  ["lists", object({ a: { type: "array", items: integer } }), { "a.0": "1", "a.1": "2" }, '{"a":[1,2]}'],
  ["needed lists", object({ a: { type: "array", items: integer } }, ["a"]), {}, '{"a":[]}'],
  ["lists of objects", object({ a: { type: "array", items: object({ b: string }, ["b"]) } }), { "a.0.b": "x" }, '{"a":[{"b":"x"}]}'],
  ["objects", object({ a: object({ b: string, c: string }, ["b"]) }), { "a.b": "x" }, '{"a":{"b":"x"}}'],
  ["or null", object({ a: { anyOf: [string, { type: "null" }] }, b: { type: ["integer", "null"] } }), { a: "x", b: "1" }, '{"a":"x","b":1}'],
  ["references", { $defs: { U: { enum: ["km", "mi"] }, "a/b": integer }, ...object({ a: { $ref: "#/$defs/U" }, b: { $ref: "#/$defs/a~1b" } }) }, { a: "1", b: "7" }, '{"a":"mi","b":7}'],
  ["circles", { $defs: { T: object({ next: { $ref: "#/$defs/T" } }) }, ...object({ a: { $ref: "#/$defs/T" } }) }, {}, "{}"],
  ["anything", object({ a: {}, b: { oneOf: [string, integer] } }), { a: '{"x": 1.0}', b: '"y"' }, '{"a":{"x":1.0},"b":"y"}'],
  ["a pattern that never ends", object({ a: { ...string, pattern: "^(a+)+$" } }), { a: `${"a".repeat(50)}!` }, `{"a":"${"a".repeat(50)}!"}`],
  ["given in what is optional", object({ a: object({ kind: { const: "k" }, b: string }, ["kind", "b"]) }), {}, "{}"],
  ["keywords of no type", object({ a: { ...string, title: { x: 1 }, description: { _$litType$: 1 }, format: { constructor: 1 }, maxLength: { y: 2 }, minLength: [1], pattern: 3 } }), { a: "x" }, '{"a":"x"}'],
  ["references to nowhere", object({ a: { $ref: "#/%zz" }, b: { $ref: "#anchor" }, c: { $ref: "#/properties/a/0/0" } }), {}, "{}"],
  ["branches without end", { $defs: { T: { anyOf: Array(20).fill({ $ref: "#/$defs/T" }) } }, ...object({ a: { $ref: "#/$defs/T" } }) }, { a: "1" }, '{"a":1}'],
  ["more fields than anybody fills in", (() => {
    const T = object(Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`p${i}`, { $ref: "#/$defs/T" }])));
    return { $defs: { T }, ...T };
  })(), {}, "{}"],
  ["names that mean something", object({ __proto__x: string, constructor: string, toString: string }), { constructor: "1", toString: "2" }, '{"constructor":"1","toString":"2"}'],
]) assert.equal(typed(make(schema), values).text(), want, name);

for (const [name, schema, values, error] of [
  ["needed", object({ a: string }, ["a"]), {}, /required/],
  ["needed within", object({ a: object({ b: string, c: string }, ["b"]) }), { "a.c": "x" }, /required/],
  ["no number", object({ a: { type: "number" } }), { a: "1,5" }, /number/],
  ["no whole number", object({ a: integer }), { a: "1.5" }, /whole/],
  ["too small", object({ a: { ...integer, minimum: 3 } }), { a: "2" }, /at least 3/],
  ["too large", object({ a: { ...integer, exclusiveMaximum: 3 } }), { a: "3" }, /less than 3/],
  ["too long", object({ a: { ...string, maxLength: 2 } }), { a: "abc" }, /at most 2/],
  ["no JSON", object({ a: {} }), { a: "{" }, /not valid JSON/],
  ["too few", object({ a: { type: "array", items: string, minItems: 2 } }), { "a.0": "x" }, /at least 2/],
]) {
  const form = typed(make(schema), values);
  assert.equal(form.text(), undefined, name);
  const errors = [];
  (function collect(f) { errors.push(f.error); f.fields.forEach(collect); })(form.root);
  assert.match(errors.join(""), error, name);
}

// There and back again: JSON that the form can't show is kept as it is.
for (const text of ['{"a":"x","more":[1e400]}', '{"a":5}', '{"a":"x","n":{"b":[1,2]},"l":["y",3]}', "{}"]) {
  const form = make(object({ a: string, n: object({ b: string }), l: { type: "array", items: string } }));
  form.asJSON(true);
  form.json = text;
  form.asJSON(false);
  assert.equal(form.json, undefined, form.error);
  assert.equal(form.text(), text);
}
const form = make(object({ a: string }));
form.asJSON(true);
// Hostile schemas end, and make a form of bounded size.
const many = (n, f) => Object.fromEntries(Array.from({ length: n }, (_, i) => f(i)));
for (const [what, schema] of Object.entries({
  "many properties": { type: "object", properties: many(64000, (i) => [`p${i}`, { type: "string" }]) },
  "many choices": { type: "object", properties: { a: { enum: Array.from({ length: 100000 }, (_, i) => `v${i}`) } } },
  "references to much": {
    type: "object",
    properties: many(5000, (i) => [`p${i}`, { allOf: [{ $ref: "#/$defs/fat" }] }]),
    $defs: { fat: many(30000, (i) => [`k${i}`, 1]) },
  },
  "doubling": {
    type: "object",
    properties: many(2000, (i) => [`p${i}`, { $ref: "#/$defs/a30" }]),
    $defs: many(31, (i) => [`a${i}`, i ? { anyOf: [{ $ref: `#/$defs/a${i - 1}` }, { $ref: `#/$defs/a${i - 1}` }] } : { type: "string" }]),
  },
})) {
  const hostile = new Form(schema, () => {});
  const longest = Math.max(0, ...hostile.root.fields.filter((f) => f.kind === "choice").map((f) => f.schema.enum.length));
  assert.ok(hostile.root.fields.length <= 1000 && longest <= 1000 && hostile.steps > -1000, what);
}

form.json = "[1]";
form.asJSON(false);
assert.match(form.error, /object/);
assert.equal(form.text(), undefined);
