package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
)

// tooMany are more names than any list may have.
var tooMany = strings.Split(strings.Repeat("tag,", 200_000)+"tag", ",")

// A description has few tools, each once, and ends with the script.
func TestDescribeIsBounded(t *testing.T) {
	long := `{"properties":{"a":{}` + strings.Repeat(`,"abcdefghij":{"type":"string","description":"`+strings.Repeat("d", 100)+`"}`, 8000) + `}}`
	tool := &registry.NormalizedTool{ID: "s:w", Server: "s", Name: "w", Description: strings.Repeat("d", 1<<20), InputSchema: json.RawMessage(long)}
	var different []string
	for i := range 21 {
		different = append(different, fmt.Sprint("s:w", i))
	}
	describe := func(ctx context.Context, end func(error), ids []string) (text string, declared int, err error) {
		h := &host{run: &Run{Tool: func(context.Context, string, session.Client) (*registry.NormalizedTool, error) {
			if declared++; declared == 3 && end != nil {
				end(errors.New("the script has ended"))
			}
			return tool, nil
		}}}
		raw, err := h.Describe(ctx, ids)
		return string(raw), declared, err
	}
	for _, test := range []struct {
		ids      []string
		declared int
		want     string // in the error
	}{
		{tooMany, 0, "describe: 200001 ids are too many; send at most 20 at a time"},
		{different, 0, "describe: 21 ids are too many; send at most 20 at a time"},
		{different[:20], 20, "<nil>"},
		{tooMany[:20], 1, "<nil>"},
	} {
		text, declared, err := describe(t.Context(), nil, test.ids)
		if fmt.Sprint(err) != test.want || declared != test.declared || len(text) > 1<<20 {
			t.Errorf("%d ids: %d tools are declared in %d bytes, %v; want %d, %s", len(test.ids), declared, len(text), err, test.declared, test.want)
		}
	}
	ctx, end := context.WithCancelCause(t.Context())
	if _, declared, err := describe(ctx, end, different[:20]); declared != 3 || fmt.Sprint(err) != "describe: the script has ended" {
		t.Errorf("after the script's end: %d tools are declared, %v", declared, err)
	}
	if n := testing.AllocsPerRun(1, func() { describe(t.Context(), nil, tooMany) }); n > 100 {
		t.Errorf("too many ids: %v allocations", n)
	}
}

// A script that asks for too many declarations gets an error that it can catch.
func TestScriptDescribesTooMany(t *testing.T) {
	e := script.New("")
	defer e.Close()
	o := Do(t.Context(), e, &scriptProvider{}, script.Limits{}, Run{Script: script.Script{Code: `try { await describe(Array(20000).fill("s:w")) } catch (e) { return e.name + " " + e.message }`}})
	if want := `"ToolError describe: 20000 ids are too many; send at most 20 at a time"`; o.Err != nil || string(o.Value) != want {
		t.Errorf("%s, %v; want %s", o.Value, o.Err, want)
	}
}
