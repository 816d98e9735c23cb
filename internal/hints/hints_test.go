package hints

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

var (
	none     = registry.Hints{}
	writes   = registry.Hints{ReadOnly: new(false)}
	destroys = registry.Hints{Destructive: new(true)}
	safe     = registry.Hints{Destructive: new(false)}
	repeats  = registry.Hints{Idempotent: new(true)}
	reads    = registry.Hints{ReadOnly: new(true)}
	readsAll = registry.Hints{ReadOnly: new(true), Destructive: new(false), Idempotent: new(true), OpenWorld: new(false)}
)

// Only claims of less harm count: what a tool that reads is declared besides is no claim.
func TestClaimMore(t *testing.T) {
	for _, c := range []struct {
		was, is registry.Hints
		want    bool
	}{
		{none, none, false},
		{none, reads, true}, {writes, reads, true}, {destroys, reads, true}, {safe, reads, true},
		{none, safe, true}, {destroys, safe, true}, {none, repeats, true},
		{none, writes, false}, {none, destroys, false}, {none, registry.Hints{OpenWorld: new(false)}, false},
		{reads, readsAll, false}, {readsAll, reads, false},
		{reads, none, false}, {reads, writes, false}, {safe, none, false}, {reads, safe, false}, {safe, repeats, true},
	} {
		expect.Equal(t, ClaimMore(c.was, c.is), c.want, "%v: claims more", Changes(c.was, c.is))
		if doubt := Doubt(c.was, c.is); (doubt != "") != c.want || c.want && !strings.HasSuffix(doubt, Changes(c.was, c.is)[0]) && len(Changes(c.was, c.is)) == 1 {
			t.Errorf("%v: doubt %q", Changes(c.was, c.is), doubt)
		}
	}
	expect.Equal(t, strings.Join(Changes(destroys, readsAll), ", "), "readOnlyHint was missing and is true, destructiveHint was true and is false, idempotentHint was missing and is true, openWorldHint was missing and is false")
}

func offer(o registry.Offer, hints map[string]registry.Hints) registry.Offer {
	o.Tools = nil
	for _, name := range slices.Sorted(maps.Keys(hints)) {
		o.Tools = append(o.Tools, registry.NormalizedTool{Name: name, Hints: hints[name]})
	}
	return o
}

// listing returns an offer as a snapshot has it.
func listing(o registry.Offer) registry.Listing {
	l := registry.Listing{Confirmed: o.Confirmed}
	for i := range o.Tools {
		l.Tools = append(l.Tools, &o.Tools[i])
	}
	return l
}

type hints = map[string]registry.Hints

// Each step is what a server lists next. unconfirmed are the tools that are doubted then.
func TestConfirmed(t *testing.T) {
	for name, steps := range map[string][]struct {
		list        hints
		confirm     bool // before the step
		unconfirmed string
	}{
		"the first claims are believed": {{list: hints{"a": reads}}, {list: hints{"a": reads}}},
		"more is claimed": {{list: hints{"a": none, "b": none}}, {list: hints{"a": reads, "b": none}, unconfirmed: "a"},
			{list: hints{"a": readsAll, "b": none}, unconfirmed: "a"}},
		"changed back":             {{list: hints{"a": none}}, {list: hints{"a": reads}, unconfirmed: "a"}, {list: hints{"a": none}}, {list: hints{"a": reads}, unconfirmed: "a"}},
		"back to what was claimed": {{list: hints{"a": reads}}, {list: hints{"a": none}}, {list: hints{"a": reads}}},
		"confirmed":                {{list: hints{"a": none}}, {list: hints{"a": reads}, unconfirmed: "a"}, {list: hints{"a": reads}, confirm: true}},
		"confirmed, and more is claimed": {{list: hints{"a": destroys}}, {list: hints{"a": safe}, unconfirmed: "a"},
			{list: hints{"a": safe}, confirm: true}, {list: hints{"a": reads}, unconfirmed: "a"}, {list: hints{"a": safe}}},
		"gone and back": {{list: hints{"a": none, "b": none}}, {list: hints{"b": none}}, {list: hints{"b": none}}, {list: hints{"a": reads, "b": none}, unconfirmed: "a"}},
		"gone while others are confirmed": {{list: hints{"a": none, "b": none}}, {list: hints{"b": reads}, unconfirmed: "b"},
			{list: hints{"b": reads}, confirm: true}, {list: hints{"a": reads, "b": reads}, unconfirmed: "a"}},
		"a new tool": {{list: hints{"a": none}}, {list: hints{"a": none, "b": reads}}},
	} {
		var now registry.Offer
		for i, step := range steps {
			if step.confirm {
				shown := make(hints)
				for _, c := range Unconfirmed(listing(now)) {
					shown[c.Tool.Name] = c.Tool.Hints
				}
				var left []string
				if now.Confirmed, left = Confirm(now, shown); left != nil {
					t.Errorf("%s, step %d: not confirmed: %v", name, i, left)
				}
			}
			next := offer(registry.Offer{}, step.list)
			next.Confirmed = Confirmed(now, next.Tools)
			now = next
			var names []string
			for _, c := range Unconfirmed(listing(now)) {
				names = append(names, c.Tool.Name)
			}
			expect.Equal(t, strings.Join(names, " "), step.unconfirmed, "%s, step %d: unconfirmed", name, i)
		}
	}
}

// What was not shown is not confirmed.
func TestConfirmWhatWasShown(t *testing.T) {
	o := offer(registry.Offer{Confirmed: hints{"a": none, "b": none, "c": none, "gone": none}}, hints{"a": reads, "b": reads, "c": reads})
	confirmed, left := Confirm(o, hints{"a": reads, "b": safe, "gone": reads})
	if want := (hints{"b": none, "c": none, "gone": none}); !reflect.DeepEqual(confirmed, want) || !slices.Equal(left, []string{"b", "gone"}) {
		t.Errorf("confirmed %v, left %v", confirmed, left)
	}
	expect.Equal(t, len(o.Confirmed), 4, "the offer was modified")
}

// A server that has more tools go than are remembered can't have one of them believed: all
// that it lists from then on must be confirmed.
func TestConfirmedBounds(t *testing.T) {
	many := make(hints)
	for i := range maxGone + 1 {
		many[fmt.Sprintf("t%05d", i)] = none
	}
	now := offer(registry.Offer{}, many)
	next := offer(registry.Offer{}, hints{"other": reads})
	next.Confirmed = Confirmed(now, next.Tools)
	if len(next.Confirmed) != maxGone+1 || len(Unconfirmed(listing(next))) != 0 {
		t.Fatalf("%d remembered, unconfirmed %v", len(next.Confirmed), Unconfirmed(listing(next)))
	}
	last := fmt.Sprintf("t%05d", maxGone)
	back := offer(registry.Offer{}, hints{last: reads})
	back.Confirmed = Confirmed(next, back.Tools)
	if all := Unconfirmed(listing(back)); len(all) != 1 {
		t.Fatalf("%d are unconfirmed", len(all))
	}
	back.Confirmed, _ = Confirm(back, hints{last: reads})
	expect.Equal(t, len(Unconfirmed(listing(back))), 0, "it stays unconfirmed")
}
