package verbs

import (
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The data file holds to its own rules.
func TestList(t *testing.T) {
	l := words()
	if len(l.names) > maxClasses {
		t.Fatalf("%d classes, and a set holds %d", len(l.names), maxClasses)
	}
	for i, k := range l.kinds {
		if !slices.Contains([]kind{reads, writes, destroys, acts}, k) {
			t.Errorf("%s: kind %q", l.names[i], k)
		}
		if l.near[i]&l.opposite[i] != 0 {
			t.Errorf("%s is near to its opposite", l.names[i])
		}
	}
	for line := range strings.Lines(list) {
		head, members, _ := strings.Cut(line, ":")
		for _, relation := range strings.Fields(strings.TrimLeft(head, "#")) {
			if strings.ContainsAny(relation[:1], "~!") && l.class(relation[1:]) == 0 && !strings.HasPrefix(line, "#") {
				t.Errorf("%q names no class: %s", relation, line)
			}
		}
		if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" && strings.TrimSpace(members) == "" {
			t.Errorf("no verbs: %s", line)
		}
	}
	check := func(verb string, s Set) {
		for rest := s; rest != 0; rest &= rest - 1 {
			if i := bits.TrailingZeros64(uint64(rest)); s&l.opposite[i] != 0 {
				t.Errorf("%q is in %s and in its opposite", verb, l.names[i])
			}
		}
	}
	for verb, s := range l.verbs {
		check(verb, s)
	}
	for first, phrases := range l.phrases {
		for _, p := range phrases {
			check(first+" "+strings.Join(p.rest, " "), p.classes)
		}
	}
}

func TestTask(t *testing.T) {
	for _, tc := range []struct{ task, has, lacks string }{
		{"show me the open issues", "list", "open"},
		{"Please get rid of the old branch", "delete", "get"},
		{"can you remember that Ann likes tea", "write", "get"},
		{"record a trace of the page", "start", "stop"},
		{"turn the lights off", "stop", "start"},
		{"what is on my calendar today?", "list", "create"},
		{"I want to go to example.com", "navigate", ""},
		{"open issues", "list", ""},
		{"open the page", "open", "list"},
		{"unread mail", "list", "send"},
		{"asana delete task", "delete", "list"},
		{"the deleted files of last week, with the sizes of each", "", "delete"},
	} {
		var all Set
		for _, s := range Task(tc.task) {
			all |= s
		}
		if tc.has != "" && all&words().class(tc.has) == 0 {
			t.Errorf("%q does not ask to %s", tc.task, tc.has)
		}
		if tc.lacks != "" && all&words().class(tc.lacks) != 0 {
			t.Errorf("%q asks to %s", tc.task, tc.lacks)
		}
	}
}

func TestTool(t *testing.T) {
	for _, tc := range []struct{ server, name, description, want string }{
		{"github", "create_issue", "", "create"},
		{"github", "issue_create", "", "create"},
		{"tracker", "record_delete", "", "delete"},
		{"browser", "performance_stop_trace", "", "stop"},
		{"twilio", "MessagesV2--DeleteMessage", "", "delete"},
		{"search", "search_remove", "", "remove"}, // the server's name says nothing
		{"cluster", "pod_logs", "Get the logs of a pod", "get"},
		{"cluster", "nodes", "Use this tool to restart nodes", "restart"},
		{"cluster", "nodes", "Nodes that are to be deleted", ""},
	} {
		if s := Tool(tc.server, tc.name, tc.description, true); s&words().writing != 0 {
			t.Errorf("%s %s: writes though it is read-only", tc.name, tc.description)
		}
		got, want := Tool(tc.server, tc.name, tc.description, false), words().class(tc.want)
		if got&want != want || tc.want == "" && got != 0 {
			t.Errorf("%s %s: %b, want %s", tc.name, tc.description, got, tc.want)
		}
	}
}

func TestCompare(t *testing.T) {
	class := words().class
	for _, tc := range []struct {
		task, tool          string
		readOnly            bool
		agreement, conflict float64
	}{
		{"delete", "delete", false, 1, 0},
		{"list", "get", false, 0.4, 0},
		{"start", "stop", false, 0, 1},
		{"list", "create", false, 0, 0.8},
		{"list", "delete", false, 0, 1},
		{"create", "list", false, 0, 0.7},
		{"create", "", true, 0, 0.7},
		{"create", "", false, 0, 0},
		{"", "delete", false, 0, 0},
		{"update", "delete", false, 0, 0.8},
	} {
		task, tool := class(tc.task), class(tc.tool)
		expect.Equal(t, Agreement(task, tool), tc.agreement, "%v: agreement", tc)
		expect.Equal(t, Conflict(task, tool, tc.readOnly), tc.conflict, "%v: conflict", tc)
	}
}
