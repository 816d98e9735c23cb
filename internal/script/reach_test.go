package script

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// reachable returns the source of each function that a script reaches from its global object and from values that our
// functions give it, by properties, accessors and prototypes, but for those of the interpreter.
const reachable = `
const seen = new Set(), sources = [];
const visit = (v) => {
  if ((typeof v !== "object" && typeof v !== "function") || v === null || seen.has(v)) return;
  seen.add(v);
  if (typeof v === "function") {
    const text = Function.prototype.toString.call(v);
    if (!text.includes("[native code]")) sources.push(text);
  }
  visit(Object.getPrototypeOf(v));
  for (const key of Reflect.ownKeys(v)) {
    const d = Object.getOwnPropertyDescriptor(v, key);
    visit(d.value); visit(d.get); visit(d.set);
    try { visit(v[key]); } catch {}
  }
};
visit(globalThis);
visit(tools.a); visit(tools.a.b);
const promise = call("s:t", {}); visit(promise); visit(await promise);
for (const ask of [() => call("s:fails"), () => search(Symbol()), () => describe([]), () => result(1), () => call(1, {}), () => tools.s.fails({})])
  try { visit(await ask()); } catch (e) { visit(e); }
visit(await callSafe("s:fails"));
visit((function* () {})()); visit((async () => {})()); visit((async function* () {})()); visit(function () {}); visit(async () => {});
return sources;`

// TestFunctionsInReach compares the functions that a script reaches with the documented ones.
func TestFunctionsInReach(t *testing.T) {
	o := engine.Run(t.Context(), Script{Code: reachable}, fakeHost{call: fails}, Options{})
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	var sources []string
	expect.OK(t, json.Unmarshal(o.Value, &sources))
	documented := []string{"class ToolError ", "(tool, args) =>", "async (tool, args) =>", "(server) =>", "(tool) =>", "(args) =>", "(task) =>", "(ids) =>", "(value) =>", "(...values) =>",
		"() => {\n      state" /* Math.random */, "value() { return rawJSON" /* BigInt.prototype.toJSON */}
	own := map[string]bool{}
	for _, source := range sources {
		if !strings.Contains(prelude, source) {
			continue // the script's
		}
		known := false
		for _, head := range documented {
			known = known || strings.HasPrefix(source, head)
		}
		if !known {
			t.Errorf("a script reaches %.200s", source)
		}
		own[source] = true
	}
	if len(own) < 9 {
		t.Errorf("the script saw %d of our functions, and should see the documented ones", len(own))
	}
}

func fails(_ context.Context, c Call) (json.RawMessage, error) {
	if c.Tool == "s:fails" {
		return json.RawMessage(`{"isError":true,"content":[{"type":"text","text":"no"}]}`), nil
	}
	return json.RawMessage(`{"structuredContent":{"a":[1]}}`), nil
}

// hooks are ways to functions or frames of the stack. Each puts what it got into got, while our functions run.
var hooks = map[string]string{
	"prepareStackTrace":           `Error.prepareStackTrace = grab`,
	"prepareStackTrace, defined":  `Object.defineProperty(Error, "prepareStackTrace", {value: grab})`,
	"prepareStackTrace, accessor": `Object.defineProperty(Error, "prepareStackTrace", {get() { return grab }, configurable: true})`,
	"prepareStackTrace, Reflect":  `Reflect.set(Error, "prepareStackTrace", grab); Reflect.set(Error, "prepareStackTrace", grab, {})`,
	"its setter":                  `Object.getOwnPropertyDescriptor(Error, "prepareStackTrace").set?.call(Error, grab)`,
	"deleted":                     `delete Error.prepareStackTrace; Error.prepareStackTrace = grab`,
	"of a subclass":               `class E extends Error {}; E.prepareStackTrace = grab; TypeError.prepareStackTrace = grab; ToolError.prepareStackTrace = grab`,
	"of the prototypes":           `Function.prototype.prepareStackTrace = Object.prototype.prepareStackTrace = grab`,
	"of another constructor":      `Object.setPrototypeOf(ToolError, class { constructor(...a) { grab(...a, new.target) } })`,
	"captureStackTrace":           `Object.defineProperty(Object.prototype, "stack", {set: grab, get: () => "x", configurable: true}); const o = {}; Error.captureStackTrace(o, call); grab(o.stack)`,
	"caller":                      `Object.prototype.toJSON = function f() { grab(f.caller, f.arguments); return {} }`,
	"callee":                      `Object.prototype.toJSON = function () { grab(arguments.callee.caller, arguments); return {} }`,
	"caller of Function":          `Object.prototype.toJSON = function () { grab(Reflect.get(Function.prototype, "caller", call)); return {} }`,
	"getters of arguments":        `args = {get a() { grab(this, new Error().stack); return 1 }, b: {get c() { grab(this); return 1 }}}`,
	"a proxy as arguments":        `args = new Proxy({a: 1}, new Proxy({}, {get: (t, k) => (...a) => { grab(k, ...a); return Reflect[k](...a) }}))`,
	"a proxy as a list":           `args = {a: new Proxy([1], {get: (t, k, r) => { grab(t, k, r); return t[k] }})}`,
	"then":                        `const then = Promise.prototype.then; Promise.prototype.then = function (...a) { grab(this, ...a); return then.apply(this, a) }`,
	"constructor of promises":     `Object.defineProperty(Promise.prototype, "constructor", {get() { grab(this); return class P { constructor(f) { grab(f); f(grab, grab) } static [Symbol.species] = P } }})`,
	"a subclass of promises":      `class P extends Promise { constructor(f) { super((a, b) => { grab(a, b); f(a, b) }) } }; Promise.prototype.constructor = P; P.resolve(1)`,
	"hasInstance":                 `Object.defineProperty(Error, Symbol.hasInstance, {value: function (v) { grab(this, v, ...arguments); return true }})`,
	"hasInstance of containers":   `for (const c of [Map, Set, Promise]) Object.defineProperty(c, Symbol.hasInstance, {value: function (v) { grab(this, v, ...arguments); return c !== Promise }})`,
	"a Map as arguments":          `args = {a: new Map([["b", new Set([1])]])}; Map.prototype.forEach = Set.prototype.forEach = grab; Map.prototype.toJSON = grab`,
	"iterators":                   `Array.prototype[Symbol.iterator] = function* () { grab(this); }`,
	"setters of indexes":          `Object.defineProperty(Array.prototype, 0, {set(v) { grab(this, v) }, get: () => 1}); Object.defineProperty(Object.prototype, "1", {set(v) { grab(this, v) }})`,
	"descriptors":                 `Object.prototype.get = grab; Object.prototype.set = grab`,
	"built-ins":                   `JSON.stringify = JSON.parse = Reflect.apply = Object.keys = Array.isArray = String.prototype.slice = grab; String = grab`,
	"AsyncFunction":               `const AF = (async () => {}).constructor, GF = (function* () {}).constructor; grab(await new AF("return typeof host + typeof ask + typeof open")(), ...new GF("yield typeof host")())`,
	"eval":                        `grab((0, eval)("typeof host + typeof ask + typeof open"), eval("typeof host + typeof encode"))`,
}

// TestHooks runs each while all of our functions work and fail. No frame, no function of ours but the documented ones and
// no host function is handed over.
func TestHooks(t *testing.T) {
	for name, hook := range hooks {
		code := `
const documented = new Set([call, callSafe, search, describe, result, console.log, console, ToolError, tools, Math.random]);
const bad = [], look = Function.prototype.toString, each = Array.prototype.forEach, test = RegExp.prototype.test, types = /kind, tool, value|host\(|holders|open\[|CallSite|resolve, reject/;
let args = {a: 1}, n = 0;
function grab(...all) {
  if (n++ > 1000) return "x";
  for (let i = 0; i < all.length; i++) {
    const v = all[i];
    if (typeof v === "string" && v.includes("function")) bad.push(v);
    if (typeof v === "function" && !documented.has(v)) { const s = look.call(v); if (types.test(s)) bad.push(s); }
    if (typeof v === "object" && v !== null && typeof v[0]?.getFunction === "function") bad.push("frames");
  }
  return "x";
}
try { ` + hook + ` } catch {}
for (const f of [() => call("s:t", args), () => call("s:fails", args), () => call(args, args), () => callSafe("s:fails", args), () => search(args), () => describe(args), () => result(args), () => console.log(args), () => tools.s.t(args), () => tools[args], () => call("s:t", 1n), () => call("s:t", Symbol())])
  try { await f() } catch (e) { grab(e, e?.stack) }
return bad.length + ""`
		o := engine.Run(t.Context(), Script{Code: code}, fakeHost{call: fails}, Options{})
		if o.Err != nil || string(o.Value) != `"0"` {
			t.Errorf("%s: %s, %v", name, o.Value, o.Err)
		}
	}
}

// TestForgedQuestions gives the host texts that the prelude does not write. None becomes a call.
func TestForgedQuestions(t *testing.T) {
	for _, text := range []string{
		"call\n\"s:t\"\n{\"a\":1},\"name\":\"x\"\n", "call\n\"s:t\"\n{\"a\":1}}\n", "call\n\"s:t\"\n\n", "call\ns:t\n{}\n", "call\n\"s:t\n{}\n", "call\n\"\n{}\n",
		"call", "CALL\n\"s:t\"\n{}\n", "\n\"s:t\"\n{}\n", "calls\n\"s:t\"\n{}\n", "call\n\"s:t\"\n{}{}\n",
	} {
		r := newRun(t.Context(), Script{}, fakeHost{}, Options{Limits: DefaultLimits, Progress: func(int, string) {}}, engine)
		r.asks(text)
		if r.ctx.Err() == nil || len(r.out.Calls) > 0 || len(r.open) > 0 {
			t.Errorf("%q became %d calls; the script goes on: %t", text, len(r.out.Calls), r.ctx.Err() == nil)
		}
		r.close()
	}
}
