package selector

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/script"
)

// A memoryJournal keeps answers and the numbers of calls that were sent.
type memoryJournal struct {
	answers []script.Answer
	sent    map[int]bool
}

func (j *memoryJournal) Begun() time.Time         { return time.UnixMilli(0) }
func (j *memoryJournal) Answered(a script.Answer) { j.answers = append(j.answers, a) }
func (j *memoryJournal) WasSent(number int) bool  { return j.sent[number] }
func (j *memoryJournal) Send(number int, _ bool) (before bool, err error) {
	before, j.sent[number] = j.sent[number], true
	return before, nil
}
func (j *memoryJournal) Next() (a script.Answer, ok bool) {
	if len(j.answers) > 0 {
		a, j.answers, ok = j.answers[0], j.answers[1:], true
	}
	return a, ok
}

// A script and those that its calls run have a journal together. Each gets its own answers back, in their order.
func TestSections(t *testing.T) {
	whole := &memoryJournal{sent: map[int]bool{}}
	section := func(outer ScriptJournal, number int) ScriptRun {
		h := &scriptHost{run: &ScriptRun{Journal: outer}}
		return ScriptRunOf(h.within(t.Context(), script.Call{Number: number}))
	}
	outer := sectionOf(whole)
	all := map[int]ScriptJournal{0: outer, 1: section(outer, 1).Journal, 2: section(outer, 2).Journal}
	answer := func(of, number int) script.Answer {
		return script.Answer{Number: number, Value: json.RawMessage{byte('0' + of)}}
	}
	for _, step := range [][2]int{{1, 2}, {2, 1}, {1, 1}, {0, 2}, {2, 2}, {0, 1}} {
		all[step[0]].Answered(answer(step[0], step[1]))
	}
	if _, err := all[2].Send(3, false); err != nil || section(outer, 2).GoesOn {
		t.Errorf("call 2 itself was sent: %v", err)
	}
	if _, err := outer.Send(1, false); err != nil {
		t.Fatal(err)
	}

	outer = sectionOf(whole)
	ctx := (&scriptHost{run: &ScriptRun{Journal: outer}}).within(t.Context(), script.Call{Number: 1})
	for attempt := range 2 { // one that could not begin takes no answers from the next one
		if a, _ := ScriptRunOf(ctx).Journal.Next(); !reflect.DeepEqual(a, answer(1, 2)) {
			t.Errorf("attempt %d gets %+v", attempt, a)
		}
	}
	first, second := section(outer, 1), section(outer, 2)
	for i, test := range []struct {
		j    ScriptJournal
		want []script.Answer
	}{
		{outer, []script.Answer{answer(0, 2), answer(0, 1)}},
		{first.Journal, []script.Answer{answer(1, 2), answer(1, 1)}},
		{second.Journal, []script.Answer{answer(2, 1), answer(2, 2)}},
		{section(outer, 3).Journal, nil},
	} {
		var got []script.Answer
		for a, ok := test.j.Next(); ok; a, ok = test.j.Next() {
			got = append(got, a)
		}
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("section %d: %+v, want %+v", i, got, test.want)
		}
	}
	if !first.GoesOn || second.GoesOn || !second.Journal.WasSent(3) || first.Journal.WasSent(3) || outer.WasSent(3) {
		t.Error("a call that was sent counts for another one")
	}
}
