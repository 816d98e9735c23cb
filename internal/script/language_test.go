package script

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// run1 runs a script with an input.
func run1(t *testing.T, code string) Outcome {
	t.Helper()
	return engine.Run(t.Context(), Script{Code: code, Input: json.RawMessage(`{"a":"in","n":9007199254740993}`)}, fakeHost{}, Options{})
}

func TestLanguage(t *testing.T) {
	for code, want := range map[string]string{
		"return 1 + 1":                    `2`,
		"return":                          ``,
		"":                                ``,
		"return undefined":                ``,
		"return null":                     `null`,
		"input.a":                         `"in"`,
		"return input?.b ?? 'none'":       `"none"`,
		"(input) => input.a":              `"in"`,
		"async ({a}) => a;\n":             `"in"`,
		"function main(x) { return x.a }": `"in"`,
		"// says a\nasync function main(x) { return x.a }\n// end": `"in"`,
		"(async () => { return input.a })()":                       `"in"`,
		"export default async (x) => x.a":                          `"in"`,
		"const f = (x) => x.a;\nexport default f":                  `"in"`,
		"const input = 3; const call = 4; return input + call":     `7`,
		"```js\nreturn input.a\n```":                               `"in"`,
		"\n ```typescript\nreturn 5 as number\n```\n":              `5`,
		"```\nreturn 6```":                                         `6`,
		"const x: {a: string} = input; return x.a":                 `"in"`,
		"interface A { a?: string[] }\ntype B<T> = A | T;\nconst f = <T,>(x: T): B<T> => x!;\nreturn f<any>(input).a":                                        `"in"`,
		"class C { private a: number; readonly b = f(1, 2)!; constructor(a: number) { this.a = a } }\nfunction f(...x) { return x.length }\nreturn new C(1)": `{"a":1,"b":2}`,
		"const a = input\ntype T = {a: string}\n[(a as T).a].length\ninterface U { b: 1 }\n(0, input)\nreturn a.a":                                           `"in"`,
		"let a = 1 as number\n(input)\nconst b = a satisfies number\n[2].map(x => x)\nconst c = input as any as {a: 1}\n`x`\nreturn [a, b, c.a]":             `[1,1,"in"]`,
		"const f = (x: any) => x as number\n+ 1\nreturn f<number>\n(2)":                                                                                      `3`,
		"declare namespace N { const a: number }\ndeclare enum E { A }\nconst module = 1, namespace = {a: 1}; return module as number + namespace.a":         `2`,
		"const m = new Map([['a', new Set([1, 'x'])], [2, new Map()]]); return [m, new Set(), await call('s:t', m)]":                                         `[{"2":{},"a":[1,"x"]},[],{"2":{},"a":[1,"x"]}]`,
		"return (await call('s:t', {x: 1})).x":                            `1`,
		"return await call('s:t')":                                        `{}`,
		"return (await tools.s.t({x: 2})).x":                              `2`,
		"return (await tools['s']['t']({x: 3})).x":                        `3`,
		"return typeof await tools.s":                                     `"object"`,
		"return await callSafe('s:t', {x: 4})":                            `{"ok":true,"value":{"x":4}}`,
		"return [(await call('s:t', {x: 9007199254740993n})).x, input.n]": `[9007199254740993,9007199254740993]`,
		"return JSON.stringify([input.n, {a: input.n}])":                  `"[9007199254740993,{\"a\":9007199254740993}]"`,
		"return (await call('s:t', {x: 1764585600000000000})).x / 1e6":    `1764585600000`,
		"return await callSafe('s:t', {x: call})":                         `{"ok":false,"error":{"name":"ToolError","tool":"s:t","message":"TypeError: arguments.x is a function, which JSON can't have","retryable":false}}`,
		"try { await call('s:t', {f() {}}) } catch (e) { return [e.name, e.tool, e.retryable, e instanceof ToolError, e instanceof Error] }": `["ToolError","s:t",false,true,true]`,
		"return await search('mail')":           `["found for mail"]`,
		"return await describe('s:t')":          `"[s:t]"`,
		"return await describe(['s:t', 's:u'])": `"[s:t s:u]"`,
		"const r = []; for await (const x of [1, 2].map(n => call('s:t', {n}))) r.push(x.n); return r":                      `[1,2]`,
		"return (await Promise.all([1, 2, 3].map(n => call('s:t', {n})))).map(x => x.n)":                                    `[1,2,3]`,
		"return [new Date(0).toISOString(), new Date().getTimezoneOffset(), Date.now() === +new Date(), performance.now()]": `["1970-01-01T00:00:00.000Z",0,true,0]`,
		"return [typeof require, typeof process, typeof fetch, typeof std, typeof os, typeof host, typeof scriptArgs]":      `["undefined","undefined","undefined","undefined","undefined","undefined","undefined"]`,
		"const p = describe([]); await search('a'); try { await p } catch { return 1 }":                                     `1`,
		"for (let i = 0; i < 5e4; i++) try { await (async () => { throw i })() } catch {}; return 2":                        `2`,
		"describe([]).catch(() => {}); return 3":                                                                            `3`,
		"let x = '\\u0000é😀'; return x + (await call('s:t', {x})).x":                                                        `"\u0000é😀\u0000é😀"`,
		"call = 1; return typeof call":                                    `"function"`,
		"leak = 1; return leak":                                           `1`,
		"return [1.5, -0, NaN, [undefined], {u: undefined}, new Date(0)]": `[1.5,0,null,[null],{},"1970-01-01T00:00:00.000Z"]`,
	} {
		o := run1(t, code)
		if o.Err != nil || string(o.Value) != want {
			t.Errorf("%s: %s, %v; want %s", code, o.Value, o.Err, want)
		}
	}
}

const unawaited = `; the script went on, since it has no "await" before this`

func TestErrorsHavePlaces(t *testing.T) {
	for code, want := range map[string]string{
		"const a = 1;\nlet b = nothing;":                               "2:9 ReferenceError: nothing is not defined",
		"return nothing":                                               "1:8 ReferenceError: nothing is not defined",
		"nothing":                                                      "1:1 ReferenceError: nothing is not defined",
		"\n\n(x) => x.y.z":                                             "3:8 TypeError: cannot read property 'z' of undefined",
		"```js\n\n  input.x.y\n```":                                    "3:3 TypeError: cannot read property 'y' of undefined",
		"let s: string = 'x';\nthrow new Error(s)":                     "2:17 Error: x",
		"return 1 +;":                                                  "1:11 SyntaxError: unexpected token in expression: ';'",
		"let x = {\n  a: 1\n  b: 2\n};":                                "3:3 SyntaxError: Unexpected identifier 'b'",
		"let x: number = 1;\nlet y: string = ;":                        "2:17 SyntaxError: Unexpected token",
		"let x: number = 1;\n  enum A { X }":                           "2:3 SyntaxError: an enum is TypeScript that can't be taken off; write JavaScript",
		"const enum A { X }\nreturn 1":                                 "1:7 SyntaxError: an enum is TypeScript that can't be taken off; write JavaScript",
		"return 1\nnamespace N { export const a = 1 }":                 "2:1 SyntaxError: a namespace is TypeScript that can't be taken off; write JavaScript",
		"class C {\n  constructor(a, private b: number) {}\n}":         "2:18 SyntaxError: a parameter that is a property is TypeScript that can't be taken off; write JavaScript",
		"return {a: [call('s:t')]}":                                    `0:0 TypeError: the result.a[0] is a promise: write "await" before it, or "await Promise.all(LIST)"`,
		"const m = new Map(); m.set('a', new Set([m])); return m":      "0:0 TypeError: the result.a[0] is a cycle: it is the result again",
		"\nconst fs = require('fs')":                                   "2:12 ReferenceError: require is not defined" + noModules,
		"await fetch('x')":                                             "1:7 ReferenceError: fetch is not defined" + noNetwork,
		"setTimeout(() => 1, 5)":                                       "1:1 ReferenceError: setTimeout is not defined" + noTimers,
		"await call('s:t', {x: Symbol()})":                             "1:22 ToolError: TypeError: arguments.x is a symbol, which JSON can't have",
		"const f = async () => {\n  await describe([1])\n}\nawait f()": "2:9 ToolError: describe: the ids are no list of strings",
		"await search('a');\nawait describe([])":                       "2:7 ToolError: describe: no ids",
		"import fs from 'fs'\nreturn 1":                                "1:8 SyntaxError: Unexpected identifier 'fs'" + noModules,
		"await import('fs')":                                           "0:0 ReferenceError: could not load module 'fs'" + noModules,
		"throw {code: 1}":                                              `0:0 Error: the script threw {"code":1}`,
		"describe([]);\nreturn 1":                                      "1:1 ToolError: describe: no ids" + unawaited,
		"const f = async () => { nothing };\nf()":                      "1:25 ReferenceError: nothing is not defined" + unawaited,
		"throw null":                                                   "0:0 Error: the script threw null",
		"return {a: [1, {f() {}}]}":                                    "0:0 TypeError: the result.a[1].f is a function, which JSON can't have",
		"const a = {}; a.b = [a]; return a":                            "0:0 TypeError: the result.b[0] is a cycle: it is the result again",
		"return [Symbol('x')]":                                         "0:0 TypeError: the result[0] is a symbol, which JSON can't have",
		"return () => 1":                                               "0:0 TypeError: the result is a function, which JSON can't have",
		"return {get x() { throw new RangeError('no') }}":              "1:29 RangeError: no",
		"result('h1')":                                                 "1:1 TypeError: result: h1 is no handle of a call's result",
		"await new Promise(() => {})":                                  "0:0 Error: the script waits for a promise that nothing settles",
		strings.Repeat("x", MaxCode+1):                                 "0:0 LimitError: the script has 65537 bytes of code; at most 64 KiB are possible",
	} {
		o := run1(t, code)
		if o.Err == nil {
			t.Errorf("%s: %s; want %s", code, o.Value, want)
		} else if got := fmt.Sprintf("%d:%d %v", o.Err.Line, o.Err.Column, o.Err); got != want {
			t.Errorf("%s: %s; want %s", code, got, want)
		}
	}
}

func TestLog(t *testing.T) {
	o := engine.Run(t.Context(), Script{Code: "console.log('a', 1, {b: [2, 4n]}, undefined, null, new TypeError('t'), 3n, Symbol('s'))\nconsole.error('é'.repeat(100)); console.log('c')"},
		fakeHost{}, Options{Limits: Limits{Log: 80}})
	want := "a 1 {\"b\":[2,4]} undefined null TypeError: t 3 Symbol(s)\n" + strings.Repeat("é", 12) + "…\n(the log is cut at 80 bytes)\n"
	if o.Err != nil || o.Log != want {
		t.Errorf("%q, %v; want %q", o.Log, o.Err, want)
	}
}
