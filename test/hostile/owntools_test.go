//go:build linux

package hostile

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// largeDefinition is the kind of server whose tool has a definition of nearly 1 MiB.
const largeDefinition = "definition of 1 MB"

// maxGrowth is how many bytes the router's memory may grow while its own tools are asked for too much.
const maxGrowth = 128 << 20

// tooMuch asks the router's own tools for 200,001 things, more than are compared with a schema.
// Each call has to be refused with a reason, and to cost little.
func (v *visit) tooMuch(call func(ctx context.Context, tool string, arguments any) (json.RawMessage, error)) {
	v.configure(entry(largeDefinition, v.pids()))
	defer v.configure(nil)
	ask := func(tool, arguments string) string {
		result, err := call(within(v.t, deadline), tool, json.RawMessage(arguments))
		if err != nil {
			return err.Error()
		}
		return string(result)
	}
	mcptest.WaitFor(v.t, "the large definition", func() bool {
		return len(ask("describe_tools", `{"ids":["hostile:attack"]}`)) > 1<<20
	})
	before := memory(v.pid(), "VmHWM")
	v.repeat(2, func(int) {
		for _, tc := range []struct{ tool, arguments, want string }{
			{"describe_tools", `{"ids":[` + strings.Repeat(`"hostile:attack",`, 200_000) + `"hostile:attack"]}`, "at most 65536 are allowed"},
			{"describe_tools", `{"ids":[` + series(200_000, `"hostile:%d",`) + `"hostile:x"]}`, "at most 65536 are allowed"},
			{"describe_tools", `{"name":[` + series(200_000, `"hostile:%d",`) + `"hostile:x"]}`, "at most 65536 are allowed"},
			{"describe_tools", `{"ids":[` + strings.Repeat(`"x",`, 20) + `"x"]}`, "arguments.ids"},
			{"find_tools", `{"query":"attack","limit":1000000,"servers":[` + series(200_000, `"s%d",`) + `"hostile"]}`, "at most 65536 are allowed"},
			{"route_task", `{"task":"attack","capabilities":[` + series(200_000, `"c%d",`) + `"x"]}`, "at most 65536 are allowed"},
			{"call_read_only_tool", `{"tool":"hostile:attack","tools":[` + series(200_000, `%d,`) + `0]}`, "was not run"}, // they count as the tool's arguments
			{"describe_tools", `{"ids":["hostile:attack","hostile__attack","hostile.attack","attack"]}`, "describe it alone"},
		} {
			if got := ask(tc.tool, tc.arguments); len(got) > 3<<20 || !strings.Contains(got, tc.want) {
				v.t.Errorf("%s %.60s: %d bytes, %.300s; want %q", tc.tool, tc.arguments, len(got), got, tc.want)
			}
		}
		// The arguments of another tool are its server's.
		if got := ask("call_tool", `{"tool":"honest:echo","arguments":{"message":"x","all":[`+series(200_000, `%d,`)+`0]}}`); !strings.Contains(got, `"arguments_checked":false`) || strings.Contains(got, `"isError":true`) {
			v.t.Errorf("call_tool: %.300s", got)
		}
	})
	if grown := memory(v.pid(), "VmHWM") - before; grown > maxGrowth {
		v.t.Errorf("the router's memory has grown by %d MB", grown>>20)
	}
}

// tooMuchInScripts has scripts ask for too much at once. Each question is refused with a reason, costs little, and does not
// go on after its script.
func (v *visit) tooMuchInScripts(call func(ctx context.Context, tool string, arguments any) (json.RawMessage, error)) {
	v.configure(entry(largeDefinition, v.pids()))
	defer v.configure(nil)
	ask := func(code string) string {
		result, err := call(within(v.t, deadline), "run_script", map[string]string{"code": code})
		if err != nil {
			return err.Error()
		}
		return string(result)
	}
	mcptest.WaitFor(v.t, "the large definition", func() bool {
		return strings.Contains(ask(`return await describe("hostile:attack")`), "declare function")
	})
	before := memory(v.pid(), "VmHWM")
	v.repeat(2, func(int) {
		for code, want := range map[string]string{
			`await describe(Array(20000).fill("hostile:attack"))`:                                                      "20000 ids are too many; send at most 20 at a time",
			`await Promise.all(Array(8).fill(0).map(() => describe(Array(3000).fill("hostile:attack"))))`:              "3000 ids are too many",
			`await describe(Array(300000).fill("abc"))`:                                                                "give at most 1048576",
			`return (await describe(Array(20).fill("hostile:attack"))).split("declare function").length`:               `"2"`,
			`for (let i = 0; i < 50; i++) describe(Array(20).fill(0).map((_, n) => "hostile:" + n)); await 0; throw 7`: "threw 7",
			`await search("x".repeat(2e6))`:                                                                            "give at most 1048576",
			`await search("attack ".repeat(1e5)); return 5`:                                                            `"5"`,
			`await call("-at-.".repeat(1e6))`:                                                                          "unknown tool",
			`await describe(["__".repeat(2e5), ":".repeat(4e5)])`:                                                      "unknown tool",
			`result("x".repeat(4e6))`:                                                                                  "is no handle",
		} {
			if got := ask(code); len(got) > 20_000 || !strings.Contains(got, want) && !strings.Contains(got, "no memory is left for scripts") {
				v.t.Errorf("%s: %d bytes, %.300s; want %s", code, len(got), got, want)
			}
		}
	})
	if grown := memory(v.pid(), "VmHWM") - before; grown > 2*maxGrowth {
		v.t.Errorf("the router's memory has grown by %d MB", grown>>20)
	}
}
