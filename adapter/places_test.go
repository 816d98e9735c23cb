package adapter

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A server that is configured twice: if one dies, the other one answers calls that only read.
func TestTwinStandsIn(t *testing.T) {
	one := fake("one", "-tools", "pid,crash,browser_click")
	link := filepath.Join(t.TempDir(), "server")
	if err := os.Symlink(one.Command, link); err != nil {
		t.Skip(err) // Windows, without the right to
	}
	one.Command = link
	two := one
	two.Name = "two"
	r, _ := running(t, Options{}, one, two)
	settled(t, r)
	call := func(id string) (text, server, degraded string) {
		t.Helper()
		tool, ok := r.Tool(id)
		if !ok {
			t.Fatalf("no tool %s", id)
		}
		result, err := r.Execute(t.Context(), selector.Call{Tool: tool})
		if err != nil {
			return err.Error(), "", ""
		}
		server, _ = wire.String(wire.Member(result.Meta(), "server"))
		return result.Text(), server, string(wire.Member(result.Meta(), "degraded"))
	}
	route := func() selector.Routed {
		t.Helper()
		routed, err := selector.Route(t.Context(), r, selector.RouteRequest{Query: selector.Query{Task: "return the process id"}})
		if err != nil || routed.Selection.Tool == nil || routed.Selection.Tool.Name != "pid" || !routed.Ran || routed.Ambiguous || len(routed.Selection.Places) != 2 {
			t.Fatalf("%+v, %v", routed, err)
		}
		return routed
	}
	route()
	first, _, _ := call("one:pid")
	second, _, _ := call("two:pid")

	expect.OK(t, os.Remove(link)) // so that the server is not started again
	pid, err := strconv.Atoi(first)
	expect.OK(t, err)
	process, err := os.FindProcess(pid)
	expect.OK(t, err)
	expect.OK(t, process.Kill())
	if text, server, degraded := call("one:pid"); text != second || server != "two" || degraded != "true" {
		t.Errorf("a read-only call is answered %q by %q, degraded %s", text, server, degraded)
	}
	if text, server, degraded := call("one:browser_click"); server == "two" || degraded == "true" {
		t.Errorf("another call is answered %q by %q, degraded %s", text, server, degraded)
	}
	if routed := route(); routed.Selection.Tool.Server != "two" || string(wire.Member(routed.Result.Meta(), "degraded")) != "false" {
		t.Errorf("a task goes to %s: %s", routed.Selection.Tool.ID, routed.Result.JSON)
	}
}

// Two servers that have the same tools in different folders.
func TestServersInSeveralFolders(t *testing.T) {
	dir := t.TempDir()
	server := func(name string) config.Server {
		s := fake(name, "-tool", `{"name":"read_notes","description":"Read a file of notes","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}},"annotations":{"readOnlyHint":true,"openWorldHint":false}}`)
		s.Cwd = filepath.Join(dir, name)
		expect.OK(t, os.Mkdir(s.Cwd, 0o700))
		return s
	}
	r, _ := running(t, Options{}, server("office"), server("garden"))
	settled(t, r)
	for _, test := range []struct {
		name, task, path string
		want             string // the server that runs it; "" if it does not run
	}{
		{"nothing decides", "read my file of notes", "notes.txt", ""},
		{"the path", "read my file of notes", filepath.Join(dir, "garden", "notes.txt"), "garden"},
		{"the other path", "read my file of notes", filepath.Join(dir, "office", "deep", "notes.txt"), "office"},
		{"the path in the task", "read the file of notes " + filepath.Join(dir, "office", "notes.txt"), "", "office"},
		{"the server's name", "read my file of notes in garden", "notes.txt", "garden"},
	} {
		t.Run(test.name, func(t *testing.T) {
			args, err := json.Marshal(map[string]string{"path": test.path})
			expect.OK(t, err)
			routed, err := selector.Route(t.Context(), r, selector.RouteRequest{Query: selector.Query{Task: test.task}, Call: selector.Call{Arguments: args}, RunUnsafe: true})
			if err != nil || routed.Ambiguous != (test.want == "") || routed.Ran == routed.Ambiguous || len(routed.Selection.Places) != 2 {
				t.Fatalf("%+v, %v", routed, err)
			}
			if got := routed.Result.Tool; got != nil && (got.Server != test.want || !strings.Contains(routed.Result.Text(), "path")) {
				t.Errorf("%s answered %s", got.Server, routed.Result.JSON)
			}
		})
	}
}

// An edit of the priority is in force at once, and the servers go on.
func TestPriorityIsEdited(t *testing.T) {
	one, two := fake("one", "-tools", "pid"), fake("two", "-tools", "pid", "-version", "2")
	one.Group, two.Group, two.Priority = "g", "g", 1
	r, edits := running(t, Options{}, one, two)
	settled(t, r)
	for _, server := range []string{"one", "two"} { // their tools are known a moment before
		expect.OK(t, r.Await(t.Context(), server))
	}
	route := func() (server, pid string) {
		t.Helper()
		routed, err := selector.Route(t.Context(), r, selector.RouteRequest{Query: selector.Query{Task: "return the process id"}})
		if err != nil || !routed.Ran || routed.Ambiguous {
			t.Fatalf("%+v, %v", routed, err)
		}
		return routed.Result.Tool.Server, routed.Result.Text()
	}
	edit := func(priority int) {
		edited := r.Edited()
		one.Priority = priority
		edits <- config.Config{Servers: []config.Server{one, two}}
		<-edited
	}
	server, pid := route()
	expect.Equal(t, server, "two", "has the higher priority")
	edit(2)
	if server, _ = route(); server != "one" {
		t.Errorf("after the edit, %s has the higher priority", server)
	}
	edit(0)
	if server, again := route(); server != "two" || again != pid {
		t.Errorf("after another edit %s answers, as process %s and not %s", server, again, pid)
	}
}
