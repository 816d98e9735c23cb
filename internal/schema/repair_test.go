package schema

import (
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestRepairNamesPlaces(t *testing.T) {
	s, err := Compile([]byte(`{"properties":{"list":{"items":{"type":"array"}},"n":{"type":"integer"}}}`))
	expect.OK(t, err)
	got, how := s.Repair(t.Context(), []byte(`{"list":["[1]","[]","[]","[]","[]","[]","[]"],"n":"7"}`))
	if string(got) != `{"list":[[1],[],[],[],[],[],[]],"n":"7"}` || !strings.Contains(how, "list.0") || !strings.HasSuffix(how, " and 2 more") {
		t.Errorf("%s: %s", got, how)
	}
	many := []byte(`{"list":["[]"` + strings.Repeat(`,"[]"`, maxRepairs) + `]}`)
	if _, how := s.Repair(t.Context(), many); how != "" {
		t.Error(how)
	}
}

// Many faults below a long name do not each take as much memory as the name.
func TestRepairBelowALongName(t *testing.T) {
	s, err := Compile([]byte(`{"additionalProperties":{"items":{"type":"array"}}}`))
	expect.OK(t, err)
	value := []byte(`{"` + strings.Repeat("k", 10<<10) + `":["x"` + strings.Repeat(`,"[]"`, 2000) + `]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	repaired, how := s.Repair(t.Context(), value)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 20<<20 || !strings.HasSuffix(string(repaired), `[],[]]}`) || len(how) > 1000 {
		t.Errorf("%d bytes; %s; %s", n, repaired[len(repaired)-20:], how)
	}
}

// A long default for many objects is not written into all of them.
func TestRepairBoundsDefaults(t *testing.T) {
	long := strings.Repeat("x", maxFilled/4)
	s, err := Compile([]byte(`{"items":{"properties":{"s":{"default":"` + long + `"}},"required":["s"]}}`))
	expect.OK(t, err)
	for n, filled := range map[int]int{1: 1, 3: 3, 100: maxRounds * 3} {
		got, _ := s.Repair(t.Context(), []byte(`[{}`+strings.Repeat(`,{}`, n-1)+`]`))
		expect.Equal(t, strings.Count(string(got), long), filled, "of %d", n)
	}
}

func FuzzRepair(f *testing.F) {
	f.Add(`{"properties":{"n":{"type":"integer"},"o":{"anyOf":[{"type":"object"},{"enum":[1,true]}]}}}`, `{"n":"1","o":"{\"a\":null}"}`)
	f.Add(`{"items":{"const":7}}`, `["7",null]`)
	f.Add(`{"properties":{"":{"type":"array"}}}`, `{"":"[]","":null}`)
	f.Fuzz(func(t *testing.T, schema, value string) {
		s, err := Compile([]byte(schema))
		if err != nil || !wire.Valid([]byte(value)) {
			return
		}
		got, how := s.Repair(t.Context(), []byte(value))
		if !wire.Valid(got) || how == "" && string(got) != value {
			t.Errorf("%s became %s: %q", value, got, how)
		}
	})
}
