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
