package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) {
	// bleve keeps workers for the life of the process.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

func newRegistry(t testing.TB) *Registry {
	r := New(zap.NewNop())
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func tool(server, name, description string, tags ...string) NormalizedTool {
	return NormalizedTool{
		ID: ToolID(server, name), Server: server, Name: name, Description: description, Capabilities: tags,
		InputSchema: json.RawMessage(`{"type":"object"}`),
	}
}

func replace(t testing.TB, r *Registry, server string, tools ...NormalizedTool) bool {
	t.Helper()
	changed, err := r.Replace(server, Offer{Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func ids[T keyed](list []T) []string {
	var all []string
	for _, t := range list {
		id, _, _ := t.key()
		all = append(all, id)
	}
	return all
}

func hits(t testing.TB, r *Registry, q Query) []string {
	t.Helper()
	found, err := r.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, hit := range found {
		all = append(all, hit.Tool.ID)
	}
	return all
}

func want(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestSnapshot(t *testing.T) {
	r := newRegistry(t)
	before := r.Snapshot()
	replace(t, r, "web", tool("web", "open", "", "browser", "web"), tool("web", "click", "", "browser"))
	replace(t, r, "a", tool("a", "z", ""), tool("a", "b:c", "", "web"))
	replace(t, r, "a:b", tool("a:b", "d", ""))
	s := r.Snapshot()

	want(t, "tools of the snapshot before", ids(before.Tools()))
	want(t, "tools", ids(s.Tools()), "a:b:c", "a:b:d", "a:z", "web:click", "web:open")
	want(t, "tools in the server's order", ids(s.Server("web")), "web:open", "web:click")
	want(t, "browser", ids(s.FindByCapability("browser")), "web:click", "web:open")
	want(t, "Browser and web", ids(s.FindByCapability(" Browser", "web")), "web:open")
	want(t, "no tag", ids(s.FindByCapability()))
	want(t, "unknown tag", ids(s.FindByCapability("mail")))
	if n := s.Capabilities(); len(n) != 2 || n["browser"] != 2 || n["web"] != 2 {
		t.Errorf("capabilities: %v", n)
	}
	for _, tool := range s.Tools() {
		if got, ok := s.Tool(tool.ID); !ok || got != tool {
			t.Errorf("Tool(%q) = %v, %v", tool.ID, got, ok)
		}
	}
	if _, ok := s.Tool("a:y"); ok {
		t.Error("found a tool that is not there")
	}

	r.Remove("web")
	want(t, "tools without web", ids(r.Tools()), "a:b:c", "a:b:d", "a:z")
	want(t, "tools of the snapshot before that", ids(s.Server("web")), "web:open", "web:click")
}

func TestReplaceSignalsChangesOnly(t *testing.T) {
	r := newRegistry(t)
	listing := []NormalizedTool{tool("s", "one", "first", "web"), tool("s", "two", "second")}
	signalled := func(f func()) bool {
		changed := r.Changed()
		f()
		select {
		case <-changed:
			return true
		default:
			return false
		}
	}
	if !signalled(func() { replace(t, r, "s", listing...) }) {
		t.Error("the first listing did not signal")
	}
	one, _ := r.Tool("s:one")
	version := r.Snapshot().Version
	if signalled(func() {
		if replace(t, r, "s", tool("s", "one", "first", "web"), tool("s", "two", "second")) {
			t.Error("an equal listing is a change")
		}
		r.Remove("unknown")
		replace(t, r, "unknown")
	}) || r.Snapshot().Version != version {
		t.Error("nothing changed, but it was signalled")
	}
	listing[1].Description = "other"
	if two, _ := r.Tool("s:two"); two.Description != "second" {
		t.Error("the caller's slice is the registry's")
	}
	if !signalled(func() { replace(t, r, "s", listing...) }) {
		t.Error("an edit did not signal")
	}
	if same, _ := r.Tool("s:one"); same != one {
		t.Error("a tool that stayed as it was has lost its identity")
	}
	if !signalled(func() { replace(t, r, "s", listing[1], listing[0]) }) {
		t.Error("another order did not signal")
	}
	if !signalled(func() { r.Remove("s") }) {
		t.Error("removal did not signal")
	}
}

func TestReplaceRefusesWhatIsNotTheServers(t *testing.T) {
	r := newRegistry(t)
	replace(t, r, "s", tool("s", "one", ""))
	wrongID := tool("s", "two", "")
	wrongID.ID = "s:one"
	for _, bad := range [][]NormalizedTool{
		{tool("other", "two", "")},
		{wrongID},
		{tool("s", "two", ""), tool("s", "two", "")},
	} {
		if changed, err := r.Replace("s", Offer{Tools: bad}); err == nil || changed {
			t.Errorf("Replace(%v) = %v, %v", bad, changed, err)
		}
	}
	want(t, "tools", ids(r.Tools()), "s:one")
}

func TestSearch(t *testing.T) {
	r := newRegistry(t)
	want(t, "in the empty registry", hits(t, r, Query{Text: "anything"}))
	replace(t, r, "github", tool("github", "createPullRequest", "Open a pull request", "git"), tool("github", "list_issues", "All issues of a repository", "git", "web"))
	replace(t, r, "weather", tool("weather", "get_forecast", "Weather for the days to come", "web"))

	want(t, "camelCase", hits(t, r, Query{Text: "pull"}), "github:createPullRequest")
	want(t, "stems and case", hits(t, r, Query{Text: "FORECASTS"}), "weather:get_forecast")
	want(t, "server", hits(t, r, Query{Text: "github issue"}), "github:list_issues", "github:createPullRequest")
	want(t, "given words", hits(t, r, Query{Words: map[string]float64{"forecast": 1}}), "weather:get_forecast")
	want(t, "one server", hits(t, r, Query{Text: "github forecast", Servers: []string{"weather"}}), "weather:get_forecast")
	want(t, "all capabilities", hits(t, r, Query{Text: "github", Capabilities: []string{"git", "Web"}}), "github:list_issues")
	want(t, "one capability of two", hits(t, r, Query{Text: "github forecast", Capabilities: []string{"git", "mail"}, AtLeast: 1}), "github:list_issues", "github:createPullRequest")
	want(t, "limit", hits(t, r, Query{Text: "github", Limit: 1}), "github:list_issues")
	want(t, "nothing", hits(t, r, Query{Text: "chocolate"}))
	want(t, "no words", hits(t, r, Query{Text: "?!"}))
	want(t, "stop words only", hits(t, r, Query{Text: "the of"}))

	replace(t, r, "weather", tool("weather", "tide_table", "High and low water"))
	want(t, "what is gone", hits(t, r, Query{Text: "forecast"}))
	want(t, "what is new", hits(t, r, Query{Text: "tides"}), "weather:tide_table")
	r.Remove("github")
	want(t, "removed server", hits(t, r, Query{Text: "github"}))
}

func TestSearchTakesQuerySyntaxAsText(t *testing.T) {
	r := newRegistry(t)
	replace(t, r, "s", tool("s", "find_file", "Find a file"), tool("s", "other", "Something else"))
	for _, text := range []string{`+file -file`, `"file`, `name:file^9`, `fi\le file~2`, `/file[/`, `file*`, `_id:"s:other" file`, `{"match_all":{}} file`} {
		want(t, text, hits(t, r, Query{Text: text}), "s:find_file")
	}
}

// BM25 differs from TF-IDF, bleve's default, in that repeating a word gains less
// and less. bleve's TF is a square root, so with TF-IDF each doubling of the
// word multiplies the score of equally long texts by √2, to the last.
func TestScoresAreBM25(t *testing.T) {
	r := newRegistry(t)
	var tools []NormalizedTool
	for i := range 8 {
		n := 1 << i
		var text strings.Builder
		text.WriteString(strings.Repeat("zebra ", n))
		for filler := range 200 - n {
			fmt.Fprintf(&text, "filler%dx%d ", i, filler)
		}
		tools = append(tools, tool("s", fmt.Sprintf("t%d", n), text.String()))
	}
	replace(t, r, "s", tools...)
	found, err := r.Search(t.Context(), Query{Text: "zebra"})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 8 {
		t.Fatalf("found %d tools", len(found))
	}
	slices.Reverse(found)
	last := 1.4
	for i, hit := range found {
		if want := fmt.Sprintf("t%d", 1<<i); hit.Tool.Name != want {
			t.Fatalf("at place %d from the end is %s, want %s", i, hit.Tool.Name, want)
		}
		if i == 0 {
			continue
		}
		ratio := hit.Score / found[i-1].Score
		if ratio <= 1 || ratio >= last {
			t.Errorf("%s scores %.4f times as much as %s, and the step before was %.4f", hit.Tool.Name, ratio, found[i-1].Tool.Name, last)
		}
		last = ratio
	}
	if last > 1.25 {
		t.Errorf("the last doubling scores %.3f times as much: no saturation", last)
	}
}

func TestSearchOrdersTiesByID(t *testing.T) {
	r := newRegistry(t)
	for _, server := range []string{"c", "a", "b"} {
		replace(t, r, server, tool(server, "same_name", "same words"))
	}
	want(t, "ties", hits(t, r, Query{Text: "same name"}), "a:same_name", "b:same_name", "c:same_name")
}

func TestIndexIsBuiltAnew(t *testing.T) {
	r := newRegistry(t)
	replace(t, r, "stays", tool("stays", "steady", "Always here"))
	for i := range 3*maxBatches + 1 {
		replace(t, r, "s", tool("s", "changing", fmt.Sprintf("version%d", i)))
		want(t, "the new version", hits(t, r, Query{Text: fmt.Sprintf("version%d", i)}), "s:changing")
		want(t, "the old version", hits(t, r, Query{Text: fmt.Sprintf("version%d", i-1)}))
		want(t, "what stays", hits(t, r, Query{Text: "steady"}), "stays:steady")
	}
	if r.tools.batches > maxBatches {
		t.Errorf("%d batches in the index", r.tools.batches)
	}
}

func TestCollectionCounts(t *testing.T) {
	r := newRegistry(t)
	replace(t, r, "s", tool("s", "one", "red green"), tool("s", "two", "red"))
	replace(t, r, "s", tool("s", "two", "red blue"), tool("s", "three", "red yellow blue sky"))
	replace(t, r, "gone", tool("gone", "four", "purple"))
	r.Remove("gone")
	c, err := r.Collection(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fresh := newRegistry(t)
	replace(t, fresh, "s", tool("s", "two", "red blue"), tool("s", "three", "red yellow blue sky"))
	f, err := fresh.Collection(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(c.docFreq, c.length) != fmt.Sprint(f.docFreq, f.length) {
		t.Errorf("after changes %v %v, built at once %v %v", c.docFreq, c.length, f.docFreq, f.length)
	}
	if c.MeanLen(DescriptionField) != 3 || !c.Has("red") || c.Has("green") || c.IDF("red") >= c.IDF("sky") {
		t.Errorf("wrong statistics: %v, mean length %v", c.docFreq, c.MeanLen(DescriptionField))
	}
}

func TestRunKeepsTheIndexUp(t *testing.T) {
	r := New(zap.NewNop())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	replace(t, r, "s", tool("s", "one", ""))
	version := r.Snapshot().Version
	for r.tools.ready.Load().Snapshot.Version < version {
		select {
		case err := <-done:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := r.Search(t.Context(), Query{Text: "one"}); !errors.Is(err, ErrClosed) {
		t.Errorf("search after Run: %v", err)
	}
	replace(t, r, "s", tool("s", "two", ""))
	if _, err := r.Search(t.Context(), Query{Text: "two"}); !errors.Is(err, ErrClosed) {
		t.Errorf("search of news after Run: %v", err)
	}
	want(t, "the catalog after Run", ids(r.Tools()), "s:two")
}

func TestSearchEndsWithItsContext(t *testing.T) {
	r := newRegistry(t)
	replace(t, r, "s", tool("s", "one", ""))
	r.tools.turn <- struct{}{} // someone is indexing
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := r.Search(ctx, Query{Text: "one"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	<-r.tools.turn
	want(t, "after the wait", hits(t, r, Query{Text: "one"}), "s:one")
}

func TestConcurrentUse(t *testing.T) {
	r := New(zap.NewNop())
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	var work sync.WaitGroup
	for w := range 4 {
		server := fmt.Sprintf("server%d", w)
		work.Go(func() {
			for i := range 50 {
				if _, err := r.Replace(server, Offer{Tools: []NormalizedTool{tool(server, "steady", "common"), tool(server, fmt.Sprintf("tool%d", i), "common")}}); err != nil {
					t.Error(err)
				}
				if i%10 == 9 {
					r.Remove(server)
				}
			}
		})
		work.Go(func() {
			for range 50 {
				found, err := r.Search(ctx, Query{Text: "common steady"})
				if err != nil {
					t.Error(err)
				}
				for _, hit := range found {
					if hit.Tool == nil || !strings.Contains(hit.Tool.Description, "common") {
						t.Errorf("hit %v", hit.Tool)
					}
				}
				_ = r.FindByCapability("web")
			}
		})
	}
	work.Wait()
	cancel()
	running.Wait()
}

// All servers are replaced in one change, and what stayed the same is the same.
func TestReplaceAll(t *testing.T) {
	r := New(zap.NewNop())
	defer r.Close()
	offer := func(ids ...string) (o Offer) {
		for _, id := range ids {
			server, name, _ := strings.Cut(id, ":")
			o.Tools = append(o.Tools, NormalizedTool{ID: id, Server: server, Name: name})
		}
		return o
	}
	if changed, err := r.ReplaceAll(map[string]Offer{"a": offer("a:1", "a:2"), "b": offer("b:1")}); !changed || err != nil || len(r.Tools()) != 3 || r.Snapshot().Version != 1 {
		t.Errorf("%v, %v: %v", changed, err, r.Tools())
	}
	kept, signal := r.Tools()[0], r.Changed()
	if changed, err := r.ReplaceAll(map[string]Offer{"a": offer("a:1"), "c": offer("c:1")}); !changed || err != nil || len(r.Tools()) != 2 || r.Tools()[0] != kept || r.Snapshot().Version != 2 {
		t.Errorf("%v, %v: %v", changed, err, r.Tools())
	}
	<-signal
	for _, same := range []map[string]Offer{{"a": offer("a:1"), "c": offer("c:1")}, {"a": offer("a:1"), "c": offer("c:1"), "d": {}}} {
		if changed, err := r.ReplaceAll(same); changed || err != nil {
			t.Errorf("%v, %v", changed, err)
		}
	}
	if changed, err := r.ReplaceAll(map[string]Offer{"a": offer("b:1")}); changed || err == nil || len(r.Tools()) != 2 {
		t.Errorf("%v, %v: %v", changed, err, r.Tools())
	}
}
