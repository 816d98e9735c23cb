package selector

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A fleet is how calls to servers are made, by name. It has no sessions.
type fleet map[string]execute.Policy

func (f fleet) Policy(server string) execute.Policy { return f[server] }
func (fleet) Session(context.Context, string, session.Client) (session.Session, error) {
	return nil, session.ErrNotSent
}

func (fleet) State(server string) status.State {
	if strings.HasPrefix(server, "down") {
		return status.Failed
	}
	return status.Ready
}

const pathSchema = `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`

// equals returns a selector of servers that have the same tools, and of one with others.
func equals(t testing.TB, f fleet, servers ...string) *Selector {
	t.Helper()
	r := registry.New()
	offer := func(server string, tools ...registry.NormalizedTool) {
		for i := range tools {
			tools[i].Server, tools[i].ID = server, registry.ID(server, tools[i].Name)
		}
		_, err := r.Replace(server, registry.Offer{Tools: tools})
		expect.OK(t, err)
	}
	for _, server := range servers {
		offer(server,
			registry.NormalizedTool{Name: "read_text_file", Description: "Read the complete contents of a file as text", InputSchema: json.RawMessage(pathSchema), Hints: registry.Hints{ReadOnly: new(true)}},
			registry.NormalizedTool{Name: "write_text_file", Description: "Write a new file or overwrite a file", InputSchema: json.RawMessage(pathSchema)},
		)
	}
	offer("git", registry.NormalizedTool{Name: "git_log", Description: "Show the commits", InputSchema: json.RawMessage(`{}`)},
		registry.NormalizedTool{Name: "git_status", Description: "Show which files were changed", InputSchema: json.RawMessage(`{}`)})
	s := New(r, Options{Executor: execute.New(execute.Options{Registry: r, Sessions: f, Log: zap.NewNop()})})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSelectPlace(t *testing.T) {
	place := func(values ...string) execute.Policy { return execute.Policy{Location: execute.NewLocation(0, values)} }
	for _, test := range []struct {
		name      string
		fleet     fleet
		servers   string
		query     Query
		want      string // the places, the chosen one first; by name if it is ambiguous
		ambiguous bool
	}{
		{"nothing decides", nil, "files-a files-b", Query{Task: "read the text file notes.txt"}, "files-a files-b", true},
		{"the server in the task", nil, "files-a files-b", Query{Task: "read the text file notes.txt on files-b"}, "files-b files-a", false},
		{"the server written otherwise", nil, "files-a files-bob", Query{Task: "read the text file notes.txt of Files Bob"}, "files-bob files-a", false},
		{"a longer name", nil, "work work-old", Query{Task: "read the text file notes.txt on work-old"}, "work-old work", false},
		{"a shorter name", nil, "work work-old", Query{Task: "read the text file notes.txt on work"}, "work work-old", false},
		{"a name in a word", nil, "home note", Query{Task: "read the text file notes.txt"}, "home note", true},
		{"a name that is a word of the tool", nil, "disk file", Query{Task: "read the text file notes.txt"}, "disk file", true},
		{"such a name, as a server's", nil, "disk file", Query{Task: "read the text file notes.txt on the file server"}, "file disk", false},
		{"a folder", fleet{"a": place("/srv/a"), "b": place("/srv/b")}, "a b", Query{Task: "read the text file", Arguments: json.RawMessage(`{"path":"/srv/b/notes.txt"}`)}, "b a", false},
		{"a folder with a longer name", fleet{"a": place("/srv/b2"), "b": place("/srv/b")}, "a b", Query{Task: "read the text file", Arguments: json.RawMessage(`{"path":"/srv/b2/notes.txt"}`)}, "a b", false},
		{"the deeper folder", fleet{"a": place("/srv"), "b": place("--root=/srv/b/")}, "a b", Query{Task: "read the text file", Arguments: json.RawMessage(`{"deep":[{"path":"/srv/b"}]}`)}, "b a", false},
		{"a way out of the folder", fleet{"a": place("/srv/a"), "b": place("/srv/b")}, "a b", Query{Task: "read the text file", Arguments: json.RawMessage(`{"path":"/srv/b/../a/x"}`)}, "a b", false},
		{"a folder of none", fleet{"a": place("/srv/a"), "b": place("/srv/b")}, "a b", Query{Task: "read the text file", Arguments: json.RawMessage(`{"path":"/etc/passwd"}`)}, "a b", true},
		{"a folder of both", fleet{"a": place("/srv"), "b": place("/srv")}, "a b", Query{Task: "read the text file", Arguments: json.RawMessage(`{"path":"/srv/x"}`)}, "a b", true},
		{"Windows", fleet{"a": place(`C:\Work`), "b": place(`D:\Home`)}, "a b", Query{Task: "read the text file", Arguments: json.RawMessage(`{"path":"d:/home/x"}`)}, "b a", false},
		{"a mounted folder", fleet{"a": place("type=bind,src=/srv/a,dst=/a"), "b": place("-v", "/srv/b:/b")}, "a b", Query{Task: "read the text file", Arguments: json.RawMessage(`{"path":"/srv/b/x"}`)}, "b a", false},
		{"a host", fleet{"a": place("https://mcp.acme.com/mcp"), "b": place("https://mcp.other.org/mcp")}, "a b", Query{Task: "read the text file", Arguments: json.RawMessage(`{"path":"https://other.org/x"}`)}, "b a", false},
		{"a port", fleet{"a": place("http://localhost:81"), "b": place("http://localhost:82")}, "a b", Query{Task: "read the text file", Arguments: json.RawMessage(`{"path":"localhost:82"}`)}, "b a", false},
		{"the name before the folder", fleet{"aa": place("/srv/a"), "bb": place("/srv/b")}, "aa bb", Query{Task: "read the text file on aa", Arguments: json.RawMessage(`{"path":"/srv/b/x"}`)}, "aa bb", false},
		{"the same thing twice", fleet{"qqa": {Twins: []string{"qqb"}}, "qqb": {Twins: []string{"qqa"}}}, "qqa qqb", Query{Task: "read the text file"}, "qqa qqb", false},
		{"a group, by priority", fleet{"a": {StandIns: []string{"b"}}, "b": {StandIns: []string{"a"}, Location: execute.NewLocation(1, nil)}}, "a b", Query{Task: "read the text file"}, "b a", false},
		{"a group, by state", fleet{"down": {StandIns: []string{"up"}, Location: execute.NewLocation(1, nil)}, "up": {StandIns: []string{"down"}}}, "down up", Query{Task: "read the text file"}, "up down", false},
		{"two of three stand in", fleet{"a": {Twins: []string{"b"}}, "b": {Twins: []string{"a"}}}, "a b c", Query{Task: "read the text file"}, "a b c", true},
		{"two of three are meant", fleet{
			"a": {Twins: []string{"b"}, Location: execute.NewLocation(0, []string{"/srv"})}, "b": {Twins: []string{"a"}, Location: execute.NewLocation(2, []string{"/srv"})},
		}, "a b c", Query{Task: "read the text file", Arguments: json.RawMessage(`{"path":"/srv/x"}`)}, "b a c", false},
		{"one server only", nil, "a", Query{Task: "read the text file"}, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := equals(t, test.fleet, strings.Fields(test.servers)...).Select(t.Context(), test.query)
			var places []string
			for _, p := range got.Places {
				places = append(places, p.Server)
			}
			if test.ambiguous { // they are in the order of their scores
				slices.Sort(places)
			}
			if err != nil || got.Tool == nil || got.Tool.Name != "read_text_file" || strings.Join(places, " ") != test.want || got.Ambiguous != test.ambiguous {
				t.Fatalf("%+v, places %q, %v; want %s", got, places, err, test.want)
			}
			if len(got.Places) > 0 && got.Tool != got.Places[0] {
				t.Errorf("chose %s", got.Tool.ID)
			}
		})
	}
}

// The server that a task names is meant by each of its steps.
func TestPlanNamesPlace(t *testing.T) {
	plan, err := equals(t, nil, "files-a", "files-b").Plan(t.Context(), Query{Task: "on files-b, read the text file notes.txt, then write the text file copy.txt"})
	if err != nil || len(plan) != 2 || plan[0].Tool.ID != "files-b:read_text_file" || plan[1].Tool.ID != "files-b:write_text_file" || plan[1].Ambiguous {
		t.Errorf("%+v, %v", plan, err)
	}
}

// Equal tools are one choice: they take nothing from each other's confidence, and one place
// in the list.
func TestFindEqualTools(t *testing.T) {
	q := Query{Task: "read the text file notes.txt"}
	one, err := equals(t, nil, "a").Find(t.Context(), q)
	expect.OK(t, err)
	many, err := equals(t, nil, "a", "b", "c", "d", "e").Find(t.Context(), q)
	expect.OK(t, err)
	names := func(r Ranking) (all []string) {
		for _, c := range r.Candidates {
			all = append(all, c.Tool.Name)
		}
		return all
	}
	if !slices.Equal(names(one), names(many)) || len(many.Candidates[0].Places) != 5 || !slices.Contains(many.Candidates[0].IDs(), "d:read_text_file") || len(many.Candidates[0].IDs()) != 5 {
		t.Errorf("found %q, and with five servers %q in %d places", names(one), names(many), len(many.Candidates[0].Places))
	}
	if a, b := one.Candidates[0].Confidence, many.Candidates[0].Confidence; b < 0.8*a {
		t.Errorf("confidence %.2f, and with five servers %.2f", a, b)
	}
	tagged, err := picker(t, "a:shoot Take a picture #camera", "b:shoot Take a picture #camera", "c:frame Frame a picture #camera").Find(t.Context(), Query{Capabilities: []string{"camera"}})
	if err != nil || !slices.Equal(names(tagged), []string{"shoot", "frame"}) || len(tagged.Candidates[0].Places) != 2 {
		t.Errorf("by capability alone: %q, %v", names(tagged), err)
	}
}

// Tools of the same form that are for different things stay apart.
func TestFindNamesakes(t *testing.T) {
	found, err := picker(t, "web:search Search the web for pages", "mail:search Search your mails").Find(t.Context(), Query{Task: "search my mails"})
	if err != nil || len(found.Candidates) != 2 || found.Candidates[0].Tool.ID != "mail:search" || found.Candidates[0].Places != nil {
		t.Errorf("%+v, %v", found, err)
	}
}

// If nothing says which server is meant, Route runs only what is the same on all.
func TestRouteToSeveralPlaces(t *testing.T) {
	yes, no := new(true), new(false)
	for _, test := range []struct {
		name, schema string
		hints        registry.Hints
		ran          bool
	}{
		{"reads in a closed world", `{"properties":{"timezone":{}}}`, registry.Hints{ReadOnly: yes, OpenWorld: no}, true},
		{"takes a path", `{"properties":{"filePath":{}}}`, registry.Hints{ReadOnly: yes, OpenWorld: no}, false},
		{"takes an account", `{"properties":{"n":{},"account_id":{}}}`, registry.Hints{ReadOnly: yes, OpenWorld: no}, false},
		{"may touch what is outside", `{}`, registry.Hints{ReadOnly: yes}, false},
		{"touches what is outside", `{}`, registry.Hints{ReadOnly: yes, OpenWorld: yes}, false},
		{"writes", `{}`, registry.Hints{Destructive: no, OpenWorld: no}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			tool := &registry.NormalizedTool{ID: "a:x", Server: "a", Name: "x", InputSchema: json.RawMessage(test.schema), Hints: test.hints}
			other := *tool
			other.ID, other.Server = "b:x", "b"
			p := &fakeProvider{selections: []Selection{{Tool: tool, Confidence: 0.9, Places: []*registry.NormalizedTool{tool, &other}, Ambiguous: true}}}
			q := RouteRequest{Threshold: 0.5, RunUnsafe: true}
			r, err := Route(t.Context(), p, q)
			if err != nil || r.Ran != test.ran || r.Ambiguous == test.ran {
				t.Errorf("ran: %v, ambiguous: %v, %v", r.Ran, r.Ambiguous, err)
			}
			q.DryRun = true
			if r, err = Route(t.Context(), p, q); err != nil || r.Ran || r.Ambiguous == test.ran {
				t.Errorf("dry: ambiguous: %v, %v", r.Ambiguous, err)
			}
			// Who names the tool by its ID has said which server is meant.
			if r, err = Route(t.Context(), p, RouteRequest{RunUnsafe: true, Call: Call{Tool: tool}}); err != nil || !r.Ran || r.Ambiguous {
				t.Errorf("by its ID: ran: %v, ambiguous: %v, %v", r.Ran, r.Ambiguous, err)
			}
		})
	}
}
