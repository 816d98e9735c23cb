package execute

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rate.Limiter
		search := &registry.NormalizedTool{ID: "s:find", Server: "s", Name: "find", Original: "search_all"}
		other := &registry.NormalizedTool{ID: "s:read", Server: "s", Name: "read"}
		p := &Policy{Rates: map[string]rate.Limit{"search_*": {PerSecond: 0.5, Burst: 2}}}
		for i := range 2 {
			expect.OK(t, takeRate(&r, search, p, "ann"), "call %d", i)
		}
		err := takeRate(&r, search, p, "ann")
		if !errors.Is(err, session.ErrNotSent) || !strings.Contains(err.Error(), "s:find was not called: its calls are limited to 30 a minute for each principal, at most 2 at once") || !strings.HasSuffix(err.Error(), "try again in 2 s") {
			t.Errorf("a third: %v", err)
		}
		expect.Equal(t, fmt.Sprint(rate.Limit{PerSecond: 1.0 / 3600}, rate.Limit{PerSecond: 2.5}), "1 an hour 2.5 a second", "rates")
		if takeRate(&r, search, p, "bob") != nil || takeRate(&r, other, p, "ann") != nil {
			t.Error("another principal, or another tool, has to wait")
		}
		time.Sleep(2 * time.Second)
		if takeRate(&r, search, p, "ann") != nil || takeRate(&r, search, p, "ann") == nil {
			t.Error("after 2 s not one call is let in")
		}
		if takeRate(&r, search, &Policy{Rates: map[string]rate.Limit{"search_*": {PerSecond: 1, Burst: 1}}}, "ann") != nil {
			t.Error("an edited rate does not count")
		}
		p = &Policy{Rates: map[string]rate.Limit{"*": {PerSecond: 1.5}}} // a second's at once
		for i := range 3 {
			expect.Equal(t, takeRate(&r, other, p, "ann") == nil, i < 2, "call %d", i)
		}
		if takeRate(&r, search, &Policy{}, "ann") != nil {
			t.Error("no rate is a limit")
		}
	})
}
