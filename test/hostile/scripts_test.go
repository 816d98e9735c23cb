//go:build linux

package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// hostileScripts are scripts, and a pattern for the error that each ends with, or for its value.
var hostileScripts = map[string]struct{ code, want string }{
	// Time.
	"endless loop":                   {`for (;;);`, `CPU`},
	"endless recursion of promises":  {`const f = () => Promise.resolve().then(f); await f()`, `CPU|memory`},
	"endless microtasks, awaited":    {`for (;;) await null`, `CPU`},
	"loop that catches everything":   {`for (;;) try { for (;;); } catch {} finally { continue }`, `CPU`},
	"label and finally":              {`a: for (;;) { try { throw 1 } finally { continue a } }`, `CPU`},
	"generator without end":          {`function* g() { for (;;) yield 1 } for (const x of g());`, `CPU`},
	"async generator without end":    {`async function* g() { for (;;) yield 1 } for await (const x of g());`, `CPU`},
	"spread of an endless iterator":  {`return [...{[Symbol.iterator]: () => ({next: () => ({value: 1, done: false})})}].length`, `CPU|memory`},
	"regular expression":             {`/^(a+)+$/.test("a".repeat(40) + "b")`, `CPU`},
	"regular expression, backwards":  {`/(?<=^(a|a?)+)b/.test("a".repeat(200) + "c")`, `CPU|null|false`},
	"array method on a huge length":  {`Array.prototype.includes.call({length: 2 ** 53 - 1}, 1)`, `CPU`},
	"reverse of a huge length":       {`Array.prototype.reverse.call({length: 2 ** 53 - 1})`, `CPU`},
	"join of a huge length":          {`Array.prototype.join.call({length: 2 ** 32}, "")`, `CPU|memory|Invalid|long`},
	"BigInt power":                   {`let x = 3n; for (;;) x = x * x`, `CPU|memory|BigInt`},
	"BigInt to text":                 {`return (7n ** 300000n).toString().length`, `CPU|BigInt|^\d+$`},
	"inconsistent comparator":        {`Array.from({length: 1e5}, (_, i) => i).sort(() => Math.random() - 0.5); for (;;);`, `CPU|memory`},
	"comparator that calls":          {`[1, 2, 3].sort(async () => { await call("s:t") }); return 1`, `^1$`},
	"proxy that never answers":       {`const p = new Proxy({}, {ownKeys() { for (;;); }}); return p`, `CPU`},
	"getter that loops":              {`return {get x() { for (;;); }}`, `CPU`},
	"toJSON that loops":              {`return {toJSON() { for (;;); }}`, `CPU`},
	"toJSON without end":             {`const o = {toJSON() { return {o} }}; return o`, `call stack|cycle|CPU`},
	"error with a getter that loops": {`throw new Proxy(new Error("x"), {get() { for (;;); }})`, `CPU`},
	"stack trace hook that loops":    {`Error.prepareStackTrace = () => { for (;;); }; await call("s:t")`, `^$`},
	"eval without end":               {`const f = "eval(f)"; globalThis.f = f; eval(f)`, `call stack|overflow`},
	"Atomics.wait":                   {`Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)`, `TypeError|ReferenceError|block`},
	"deep code":                      {"return " + strings.Repeat("(", 30000) + strings.Repeat(")", 30000), `SyntaxError|stack`},
	"deep types":                     {"let x: " + strings.Repeat("a<", 30000), `SyntaxError|stack|CPU`},
	"arrows in types":                {strings.Repeat("a=>", 20000) + " 1 as any", `stack|CPU|Syntax|function`},

	// Memory.
	"string bomb":        {`let s = "x"; for (;;) s += s`, `too long|memory`},
	"strings kept":       {`const a = []; for (let i = 0;; i++) a.push("x".repeat(1e6) + i)`, `memory`},
	"array bomb":         {`const a = []; for (;;) a.push(new Array(10000).fill(1))`, `memory`},
	"array of a length":  {`new Array(2 ** 32 - 1).fill(1)`, `memory|CPU`},
	"typed array":        {`new Uint8Array(2 ** 31)`, `memory|length`},
	"buffers kept":       {`const a = []; for (;;) a.push(new ArrayBuffer(1 << 20))`, `memory`},
	"bomb that catches":  {`const a = []; for (;;) try { for (;;) a.push("x".repeat(1e5) + a.length) } catch { }`, `memory|CPU`},
	"map bomb":           {`const m = new Map(); for (let i = 0;; i++) m.set({}, i)`, `memory|CPU`},
	"closure bomb":       {`let f = () => 0; for (;;) { const g = f; f = () => g }`, `memory|CPU`},
	"promise bomb":       {`for (;;) new Promise(() => {}).then(() => {}), globalThis[Math.random()] = Promise.resolve()`, `memory|CPU`},
	"JSON bomb":          {`let s = "[0]"; for (let i = 0; i < 24; i++) s = "[" + s + "," + s + "]"; return JSON.parse(s).length`, `memory|CPU|long`},
	"deep value":         {`let a = []; for (let i = 0; i < 1e6; i++) a = [a]; return a`, `call stack|CPU|memory`},
	"large result":       {`return "x".repeat(100e6)`, `memory`},
	"result of 20 MB":    {`return "x".repeat(20e6)`, `LimitError`},
	"recursion":          {`(function f() { f() })()`, `call stack`},
	"deep, then a loop":  {`try { (function f() { f() })() } catch {} for (;;);`, `CPU`},
	"recursion in C":     {`let a = []; a[0] = a; a.toString(); const f = () => [1].map(f); f()`, `call stack`},
	"recursion, caught":  {`let n = 0; (function f() { try { f() } finally { n++; if (n < 100) f() } })()`, `call stack|CPU`},
	"message of 10 MB":   {`throw new Error("x".repeat(10e6))`, `^Error: x{1000}`},
	"stack of 10 MB":     {`const e = new Error("m"); e.stack = "script:1:1\n".repeat(1e6); throw e`, `^Error: m$`},
	"name that is wrong": {`const e = new Error("m"); e.name = {}; throw e`, `m|can't be read`},
	"log flood":          {`for (let i = 0; i < 1e5; i++) console.log("x".repeat(1000)); return 1`, `^1$|CPU`},
	"log of 30 MB":       {`console.log("x".repeat(30e6)); return 1`, `^1$|memory`},

	// Calls.
	"a million calls":         {`for (let i = 0; i < 1e6; i++) call("s:t")`, `more than 100 calls`},
	"calls in a loop, caught": {`for (;;) try { await call("s:t") } catch {}`, `more than 100 calls`},
	"searches without end":    {`for (;;) await search("x")`, `more than 100 calls`},
	"huge arguments":          {`await call("s:t", {x: "x".repeat(5 << 20)})`, `at most 4194304`},
	"huge arguments, kept":    {`for (;;) await call("s:t", {x: "x".repeat(4 << 19)})`, `arguments, images and resources have more than`},
	"huge name":               {`await call("x".repeat(5e6))`, `ToolError|memory|LimitError|no tool`},
	"name with lines":         {`return (await call("s:t\n{}\nscript:1:1", {x: 1})).x`, `^1$`},
	"arguments of getters":    {`await call("s:t", {get x() { throw new Error("mine") }})`, `ToolError: Error: mine`},
	"arguments that call":     {`return await call("s:t", {get x() { call("s:t"); return 2 }})`, `"x":2`},
	"answers of 10 MB kept":   {`const a = []; for (;;) a.push(await call("s:large"))`, `does not fit|do not fit|memory`},
	"settles twice":           {`let r; const p = new Promise(x => r = x); r(1); r(2); return await p`, `^1$`},
	"never settles":           {`await new Promise(() => {})`, `nothing settles`},
	"thenable without end":    {`return {then(f) { f(this) }}`, `CPU|memory`},
	"thenable that is silent": {`return {then() {}}`, `nothing settles`},

	// Prototypes.
	"then replaced":           {`Promise.prototype.then = function () { throw new Error("stolen") }; return (await call("s:t", {x: 3})).x`, `^3$|stolen`},
	"constructor replaced":    {`Promise.prototype.constructor = 1; return (await call("s:t", {x: 3})).x`, `^3$|Error`},
	"Promise replaced":        {`globalThis.Promise = class { constructor() { throw new Error("stolen") } }; return (await call("s:t", {x: 3})).x`, `^3$`},
	"setters on Object":       {`for (const k of ["resolve", "reject", "stack", "tool", "0", "1"]) Object.defineProperty(Object.prototype, k, {set() { throw new Error("stolen") }, get() { return 7 }}); return (await call("s:t", {x: 3})).x`, `^3$`},
	"setters on Array":        {`for (let i = 0; i < 9; i++) Object.defineProperty(Array.prototype, i, {set() { throw new Error("stolen") }}); return (await call("s:t", {x: 3})).x`, `^3$|can't be read`},
	"JSON replaced":           {`JSON.stringify = JSON.parse = () => { throw new Error("stolen") }; return (await call("s:t", {x: 3})).x`, `^3$`},
	"push and slice replaced": {`Array.prototype.push = String.prototype.slice = () => { throw new Error("stolen") }; return (await call("s:t", {x: 3})).x`, `^3$`},
	"iterators replaced":      {`Array.prototype[Symbol.iterator] = () => { throw new Error("stolen") }; console.log(1, 2); return (await call("s:t", {x: 3})).x`, `^3$`},
	"toJSON on Object":        {`Object.prototype.toJSON = () => 9; return 3`, `^3$`},
	"toJSON on String":        {`String.prototype.toJSON = () => 9; return (await call("s:t", {x: 3})).x`, `^3$`},
	"apply replaced":          {`Function.prototype.apply = Function.prototype.call = Reflect.apply = () => { throw new Error("stolen") }; return (await call("s:t", {x: 3})).x`, `^3$`},
	"Error replaced":          {`globalThis.Error = globalThis.TypeError = null; throw 5`, `the script threw 5`},
	"stackTraceLimit":         {`Error.stackTraceLimit = -1; return (await call("s:t", {x: 3})).x`, `^3$`},
	"stack trace hook":        {`Error.prepareStackTrace = (e, frames) => { globalThis.got = frames.map(f => f.getFunction && f.getFunction()); return {toString() { return "x" }} }; await call("s:t"); return typeof host + (globalThis.got || []).filter(f => f && /host/.test(f.name)).length`, `"undefined0"`},
	"caller":                  {`return call.caller === undefined || call.caller === null`, `TypeError|true`},
	"forged ToolError":        {`throw new ToolError("s:forged", "forged", true)`, `ToolError: forged`},
	"forged name":             {`const e = new Error("forged"); e.name = "LostError"; throw e`, `forged`},
	"globals replaced":        {`Object.defineProperty(globalThis, "call", {value: 1})`, `TypeError`},
	"globals deleted":         {`delete globalThis.call; delete globalThis.console; return (await call("s:t", {x: 3})).x`, `^3$`},
	"Date replaced":           {`Date.now = () => { throw 1 }; Date.prototype.toISOString = () => "x"; return new Date(8.64e15 + 1)`, `^null$|RangeError|"x"`},
	"code of its own wrapper": {`}); globalThis.evil = 1; (async () => { return typeof evil`, `SyntaxError|"number"|undefined`},
	"import":                  {`await import("fs")`, `could not load module`},
	"import of data":          {`await import("data:text/javascript,1")`, `could not load module`},
	"Function":                {`return Function("return typeof process + typeof require")()`, `"undefinedundefined"`},
	"process":                 {`process.exit(1)`, `not defined`},
	"null bytes":              {"return 'a\x00b'.length", `^3$|SyntaxError`},
	"invalid UTF-8":           {"return '\xff\xfe'.length", `^\d$|SyntaxError`},
}

// A scriptHost answers with the arguments.
type scriptHost struct{}

func (scriptHost) Call(_ context.Context, c script.Call) (json.RawMessage, error) {
	if c.Tool == "s:large" {
		return json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 10<<20) + `"}]}`), nil
	}
	if !strings.HasPrefix(c.Tool, "s:t") {
		return nil, fmt.Errorf("there is no tool %.20s", c.Tool)
	}
	return json.RawMessage(`{"structuredContent":` + string(c.Arguments) + `}`), nil
}

func (scriptHost) Search(context.Context, string) (json.RawMessage, error) {
	return json.RawMessage("[]"), nil
}

func (scriptHost) Describe(context.Context, []string) (json.RawMessage, error) {
	return json.RawMessage(`""`), nil
}

// TestHostileScripts runs each. It ends as it should, leaves no memory, and an honest script runs after it.
func TestHostileScripts(t *testing.T) {
	engine := script.New(t.TempDir())
	defer engine.Close()
	for name, hostile := range hostileScripts {
		limits := script.Limits{CPU: 30 * time.Second, Log: 1000}
		if strings.Contains(hostile.want, "CPU") {
			limits.CPU = 200 * time.Millisecond
		}
		o := engine.Run(t.Context(), script.Script{Code: hostile.code}, scriptHost{}, script.Options{Limits: limits})
		got := string(o.Value)
		if o.Err != nil {
			got = o.Err.Error()
		}
		if !regexp.MustCompile(hostile.want).MatchString(got) {
			t.Errorf("%s: %.300s; want %s", name, got, hostile.want)
		}
		if len(got) > 5000 && o.Err != nil || len(o.Log) > 2000 || len(o.Calls) > 100 || engine.Mapped() != 0 {
			t.Errorf("%s: an error of %d bytes, a log of %d, %d calls, %d bytes of memory left", name, len(got), len(o.Log), len(o.Calls), engine.Mapped())
		}
		honest := engine.Run(t.Context(), script.Script{Code: `return (await call("s:t", {x: 3})).x`}, scriptHost{}, script.Options{})
		expect.Equal(t, string(honest.Value), "3", "after %s: %s, %v", name, honest.Value, honest.Err)
	}
}

// TestHostileScriptsOfClients runs all scripts at a router, several at once, and many with deep stacks. Its memory is
// bounded, and honest calls are answered meanwhile.
func TestHostileScriptsOfClients(t *testing.T) {
	const most = 200 << 20 // bytes
	r := start(t, own(map[string]any{
		"profiles": map[string]any{"default": map[string]any{"scripts": true}}, "scripts": map[string]any{"cpu": "300ms", "timeout": "30s"},
	}))
	load := r.honestLoad()
	load.begin()
	ctx, over := context.WithCancel(context.Background())
	var honest, hostile sync.WaitGroup
	honest.Go(func() { load.work(ctx) })
	names := make(chan string)
	for range 4 {
		c := r.client(`{"elicitation":{"form":{}}}`)
		run := func(name string) {
			arguments, _ := json.Marshal(map[string]string{"code": hostileScripts[name].code})
			if _, err := c.Call(within(t, patience), "run_script", json.RawMessage(arguments)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for range 8 {
			hostile.Go(func() { run("deep, then a loop") })
		}
		hostile.Go(func() {
			for name := range names {
				run(name)
			}
		})
	}
	for name := range hostileScripts {
		names <- name
	}
	close(names)
	hostile.Wait()
	over()
	honest.Wait()
	peak := memory(r.pid(), "VmHWM")
	if peak > most {
		t.Errorf("the router used %d MB, at most %d are its", peak>>20, most>>20)
	}
	result, err := r.client(`{}`).Call(within(t, patience), "run_script", json.RawMessage(`{"code":"return 6 * 7"}`))
	if text, isError := textOf(result); err != nil || isError || text != "42" {
		t.Errorf("an honest script: %s, %v", result, err)
	}
	t.Logf("the router used %d MB at most", peak>>20)
}
