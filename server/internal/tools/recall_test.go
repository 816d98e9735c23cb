package tools

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
)

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(budget.New(maxClients))
		for i := range 3 * maxClients {
			m.note(i, finding{task: "task", tools: []string{"a:b"}})
		}
		if len(findingsOf(m)) > maxClients {
			t.Errorf("%d clients are remembered", len(findingsOf(m)))
		}
		for i := range 2 * maxRecalled {
			m.note("x", finding{task: fmt.Sprint(i), tools: []string{fmt.Sprint("tool", i%2)}})
		}
		if got := m.called("x", "tool0", true); got[0].Task != fmt.Sprint(2*maxRecalled-2) || len(findingsOf(m)["x"]) != maxRecalled {
			t.Errorf("recalls %+v of %d", got, len(findingsOf(m)["x"]))
		}
		m.note("y", finding{task: strings.Repeat("x", 1<<20), tools: []string{"tool"}})
		if got := m.called("y", "tool", false); len(got[0].Task) != maxRecalledTask {
			t.Errorf("%d bytes of a task are kept", len(got[0].Task))
		}
		m.note("x", finding{task: "refused"})
		time.Sleep(recallTime + time.Second)
		for _, tool := range []string{"tool0", "other"} {
			if got := m.called("x", tool, false); len(got) > 0 {
				t.Errorf("recalls %+v after a while", got)
			}
		}
		m.Forget("x")
	})
}

// What a call teaches depends on the searches before it. A step of a session is a search,
// "task: tools" with "!" if it is sure, or a call, "tool" with "-" if it fails; want is what the
// last call teaches.
func TestLessons(t *testing.T) {
	for _, tc := range []struct {
		name    string
		session []string
		want    string
	}{
		{"listed, sure", []string{"a: x y!", "x"}, "a=x"},
		{"listed, unsure", []string{"a: x y", "y"}, "a=y unsure"},
		{"listed, failed", []string{"a: x y", "y-"}, "a=y failed"},
		{"refused", []string{"a:", "z"}, "a=z unlisted first"},
		{"refused, failed", []string{"a:", "z-"}, ""},
		{"refused, the next after a failure", []string{"a:", "w-", "z"}, "a=z unlisted first"},
		{"refused, the third", []string{"a:", "v", "w", "z"}, "a=z unlisted"},
		{"refused, the fourth", []string{"a:", "u", "v", "w", "z"}, ""},
		{"sure, unlisted", []string{"a: x!", "z"}, "a=z unlisted"},
		{"served, unlisted", []string{"a: x", "x", "z"}, ""},
		{"listed after unlisted", []string{"a: x", "z", "x"}, "a=z withdrawn, a=x unsure"},
		{"twice refused", []string{"a:", "b:", "z"}, "b=z unlisted first, a=z unlisted"},
		{"a later search lists it", []string{"a:", "b: z!", "z"}, "b=z"},
		{"an earlier search lists it", []string{"a: z!", "b:", "z"}, "b=z unlisted, a=z"},
		{"an earlier search listed it and was served", []string{"a: x z!", "x", "b:", "z"}, "b=z unlisted first"},
		{"an earlier search listed it and has its tool", []string{"a: z", "y", "b:", "z"}, "b=z unlisted first"},
		{"the same task again", []string{"a:", "a:", "z"}, "a=z unlisted first"},
		{"by capabilities", []string{"a:", ": z!", "z"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMemory(budget.New(maxClients))
			var last []selector.Use
			for _, step := range tc.session {
				if task, tools, ok := strings.Cut(step, ":"); ok {
					m.note("me", finding{task: task, tools: strings.Fields(strings.Trim(tools, "!")), sure: strings.HasSuffix(tools, "!")})
				} else {
					tool, failed := strings.CutSuffix(step, "-")
					last = m.called("me", tool, failed)
				}
			}
			var got []string
			for _, u := range last {
				says := u.Task + "=" + u.Tool
				for i, is := range []bool{u.Failed, u.Unsure, u.Unlisted, u.First, u.Withdrawn} {
					if is {
						says += " " + []string{"failed", "unsure", "unlisted", "first", "withdrawn"}[i]
					}
				}
				got = append(got, says)
			}
			if got := strings.Join(got, ", "); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if len(m.called("you", "x", false)) > 0 {
				t.Error("another client's search is learned from")
			}
		})
	}
}

// The clients of many servers are within one bound.
func TestMemoriesOfManyServers(t *testing.T) {
	b := NewBudgets()
	modest := newMemory(b.findings)
	modest.note("me", finding{task: "task", tools: []string{"a:b"}})
	total := 0
	var all []*memory
	for range 50 {
		m := newMemory(b.findings)
		all = append(all, m)
		for i := range 100 {
			m.note(i, finding{task: "task", tools: []string{"a:b"}})
		}
	}
	for _, m := range all {
		total += len(findingsOf(m))
		m.Clear()
	}
	if total >= maxClients || total < maxClients/2 || len(findingsOf(modest)) != 1 {
		t.Errorf("%d clients of many servers and %d of one are remembered", total, len(findingsOf(modest)))
	}
	for i := range maxClients {
		modest.note(i, finding{task: "task", tools: []string{"a:b"}})
	}
	if len(findingsOf(modest)) != maxClients {
		t.Errorf("%d clients are remembered after the other servers have ended", len(findingsOf(modest)))
	}
}

func findingsOf(m *memory) (found map[any][]finding) {
	m.Do(func(clients map[any][]finding) { found = clients })
	return found
}
