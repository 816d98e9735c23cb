package script

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// BenchmarkStart runs a script that does nothing.
func BenchmarkStart(b *testing.B) {
	warm(b)
	for b.Loop() {
		if o := engine.Run(b.Context(), Script{Code: "return 1"}, fakeHost{}, Options{}); o.Err != nil {
			b.Fatal(o.Err)
		}
	}
}

// BenchmarkCalls runs a script with 1,000 calls, whose results have 100 bytes.
func BenchmarkCalls(b *testing.B) {
	result := json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 100) + `"}]}`)
	host := fakeHost{call: func(context.Context, Call) (json.RawMessage, error) { return result, nil }}
	code := "for (let i = 0; i < 1000; i++) await call('a:b', {i})"
	warm(b)
	for b.Loop() {
		if o := engine.Run(b.Context(), Script{Code: code}, host, Options{Limits: Limits{Calls: 1000}}); o.Err != nil {
			b.Fatal(o.Err)
		}
	}
}

// warm loads the interpreter.
func warm(b *testing.B) {
	if o := engine.Run(b.Context(), Script{Code: "return 1"}, fakeHost{}, Options{}); o.Err != nil {
		b.Fatal(o.Err)
	}
}
