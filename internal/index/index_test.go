package index

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

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestMain(m *testing.M) {
	// bleve keeps workers for the life of the process.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

// A searchable is a registry with its indexes.
type searchable struct {
	*registry.Registry
	*Indexes
}

func newSearchable() *searchable {
	r := registry.New()
	return &searchable{r, New(r)}
}

func open(t testing.TB) *searchable {
	r := newSearchable()
	t.Cleanup(func() {
		expect.OK(t, r.Close())
	})
	return r
}

func tool(server, name, description string, tags ...string) registry.NormalizedTool {
	return registry.NormalizedTool{
		ID: registry.ID(server, name), Server: server, Name: name, Description: description, Capabilities: tags,
		InputSchema: json.RawMessage(`{"type":"object"}`),
	}
}

func replace(t testing.TB, r *searchable, server string, tools ...registry.NormalizedTool) bool {
	t.Helper()
	changed, err := r.Replace(server, registry.Offer{Tools: tools})
	expect.OK(t, err)
	return changed
}

func ids(tools []*registry.NormalizedTool) []string {
	var all []string
	for _, t := range tools {
		all = append(all, t.ID)
	}
	return all
}

func hits(t testing.TB, r *searchable, q Query) []string {
	t.Helper()
	found, err := searchTools(r, t.Context(), q)
	expect.OK(t, err)
	var all []string
	for _, hit := range found {
		all = append(all, hit.Tool.ID)
	}
	return all
}

func want(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	expect.List(t, got, want, "%s", what)
}

func TestSearch(t *testing.T) {
	r := open(t)
	want(t, "in the empty registry", hits(t, r, Query{Words: Words("anything")}))
	replace(t, r, "github", tool("github", "createPullRequest", "Open a pull request", "git"), tool("github", "list_issues", "All issues of a repository", "git", "web"))
	replace(t, r, "weather", tool("weather", "get_forecast", "Weather for the days to come", "web"))

	want(t, "camelCase", hits(t, r, Query{Words: Words("pull")}), "github:createPullRequest")
	want(t, "stems and case", hits(t, r, Query{Words: Words("FORECASTS")}), "weather:get_forecast")
	want(t, "server", hits(t, r, Query{Words: Words("github issue")}), "github:list_issues", "github:createPullRequest")
	want(t, "given words", hits(t, r, Query{Words: []string{"forecast"}}), "weather:get_forecast")
	want(t, "one server", hits(t, r, Query{Words: Words("github forecast"), Servers: []string{"weather"}}), "weather:get_forecast")
	want(t, "all capabilities", hits(t, r, Query{Words: Words("github"), Capabilities: []string{"git", "web"}}), "github:list_issues")
	want(t, "one capability of two", hits(t, r, Query{Words: Words("github forecast"), Capabilities: []string{"git", "mail"}, AtLeast: 1}), "github:list_issues", "github:createPullRequest")
	want(t, "limit", hits(t, r, Query{Words: Words("github"), Limit: 1}), "github:list_issues")
	want(t, "nothing", hits(t, r, Query{Words: Words("chocolate")}))
	want(t, "no words", hits(t, r, Query{Words: Words("?!")}))
	want(t, "stop words only", hits(t, r, Query{Words: Words("the of")}))

	replace(t, r, "weather", tool("weather", "tide_table", "High and low water"))
	want(t, "what is gone", hits(t, r, Query{Words: Words("forecast")}))
	want(t, "what is new", hits(t, r, Query{Words: Words("tides")}), "weather:tide_table")
	r.Remove("github")
	want(t, "removed server", hits(t, r, Query{Words: Words("github")}))
}

func TestSearchTakesQuerySyntaxAsText(t *testing.T) {
	r := open(t)
	replace(t, r, "s", tool("s", "find_file", "Find a file"), tool("s", "other", "Something else"))
	for _, text := range []string{`+file -file`, `"file`, `name:file^9`, `fi\le file~2`, `/file[/`, `file*`, `_id:"s:other" file`, `{"match_all":{}} file`} {
		want(t, text, hits(t, r, Query{Words: Words(text)}), "s:find_file")
	}
}

// BM25 differs from TF-IDF, bleve's default, in that repeating a word gains less
// and less. bleve's TF is a square root, so with TF-IDF each doubling of the
// word multiplies the score of equally long texts by √2, to the last.
func TestScoresAreBM25(t *testing.T) {
	r := open(t)
	var tools []registry.NormalizedTool
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
	found, err := searchTools(r, t.Context(), Query{Words: Words("zebra")})
	expect.OK(t, err)
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
	r := open(t)
	for _, server := range []string{"c", "a", "b"} {
		replace(t, r, server, tool(server, "same_name", "same words"))
	}
	want(t, "ties", hits(t, r, Query{Words: Words("same name")}), "a:same_name", "b:same_name", "c:same_name")
}

// Of many items with one score, those with the first IDs are found, whatever segment they are in.
func TestTiesBeyondTheLimit(t *testing.T) {
	r := open(t)
	for _, server := range []string{"c", "a", "b"} {
		var tools []registry.NormalizedTool
		for i := range 5 {
			tools = append(tools, tool(server, fmt.Sprint("x", i), "Same words"))
		}
		replace(t, r, server, tools...)
		_, err := r.Tools(t.Context())
		expect.OK(t, err)
	}
	replace(t, r, "d", tool("d", "x", "Same words, same words"))
	want(t, "the first", hits(t, r, Query{Words: Words("same words"), Limit: 7}), "d:x", "a:x0", "a:x1", "a:x2", "a:x3", "a:x4", "b:x0")
	replace(t, r, "a", tool("a", "x9", "Other ones"))
	want(t, "the first", hits(t, r, Query{Words: Words("same words"), Limit: 3}), "d:x", "b:x0", "b:x1")
}

// After many updates the index of bleve is made again; searches meanwhile find what does not change.
func TestIndexIsMadeAgain(t *testing.T) {
	r := open(t)
	replace(t, r, "stays", tool("stays", "steady", "Always here"))
	ctx, cancel := context.WithCancel(t.Context())
	var searches sync.WaitGroup
	searches.Go(func() {
		for ctx.Err() == nil {
			want(t, "meanwhile", hits(t, r, Query{Words: Words("steady")}), "stays:steady")
		}
	})
	for i := range 3*maxUpdates + 1 {
		replace(t, r, "s", tool("s", "changing", fmt.Sprintf("version%d", i)))
		want(t, "the new version", hits(t, r, Query{Words: Words(fmt.Sprintf("version%d", i))}), "s:changing")
		want(t, "the old version", hits(t, r, Query{Words: Words(fmt.Sprintf("version%d", i-1))}))
	}
	cancel()
	searches.Wait()
	if n := r.tools.updates; n > maxUpdates {
		t.Errorf("%d updates since the index was made", n)
	}
	want(t, "in the end", hits(t, r, Query{Words: Words("steady changing")}), "s:changing", "stays:steady")
}

// A search that began before the index of bleve was replaced or closed goes on with the next, or fails.
func TestSearchOfAnEarlierCollection(t *testing.T) {
	r := open(t)
	replace(t, r, "s", tool("s", "one", "common"))
	before := tools(t, r)
	for i := range maxUpdates + 1 {
		replace(t, r, "s", tool("s", "one", "common"), tool("s", fmt.Sprint("x", i), "common"))
		tools(t, r)
	}
	if found, err := before.Search(t.Context(), Query{Words: Words("common")}); err != nil || len(found) != 1 || found[0].Tool.Name != "one" {
		t.Errorf("found %v, %v", listed(found), err)
	}
	expect.OK(t, r.Close())
	if _, err := before.Search(t.Context(), Query{Words: Words("common")}); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestCollectionCounts(t *testing.T) {
	r := open(t)
	replace(t, r, "s", tool("s", "one", "red green"), tool("s", "two", "red"))
	replace(t, r, "s", tool("s", "two", "red blue"), tool("s", "three", "red yellow blue sky"))
	replace(t, r, "gone", tool("gone", "four", "purple"))
	r.Remove("gone")
	c, err := r.Tools(t.Context())
	expect.OK(t, err)
	fresh := open(t)
	replace(t, fresh, "s", tool("s", "two", "red blue"), tool("s", "three", "red yellow blue sky"))
	f, err := fresh.Tools(t.Context())
	expect.OK(t, err)
	if fmt.Sprint(c.docFreq, c.length) != fmt.Sprint(f.docFreq, f.length) {
		t.Errorf("after changes %v %v, built at once %v %v", c.docFreq, c.length, f.docFreq, f.length)
	}
	if c.MeanLen(DescriptionField) != 3 || !c.Has("red") || c.Has("green") || c.IDF("red") >= c.IDF("sky") {
		t.Errorf("wrong statistics: %v, mean length %v", c.docFreq, c.MeanLen(DescriptionField))
	}
}

func TestRunKeepsTheIndexUp(t *testing.T) {
	r := newSearchable()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, zap.NewNop()) }()
	if found, err := searchTools(r, t.Context(), Query{Words: Words("one")}); err != nil || len(found) > 0 {
		t.Errorf("a search of nothing: %v, %v", found, err)
	}
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
	expect.OK(t, <-done)
	if _, err := searchTools(r, t.Context(), Query{Words: Words("one")}); !errors.Is(err, errClosed) {
		t.Errorf("search after Run: %v", err)
	}
	replace(t, r, "s", tool("s", "two", ""))
	if _, err := searchTools(r, t.Context(), Query{Words: Words("two")}); !errors.Is(err, errClosed) {
		t.Errorf("search of news after Run: %v", err)
	}
	want(t, "the catalog after Run", ids(r.Snapshot().Tools()), "s:two")
}

// The index of a few tools is made by the first search, that of many before it.
func TestFirstSearch(t *testing.T) {
	r := open(t)
	var all []registry.NormalizedTool
	for i := range maxUnsearched + 1 {
		all = append(all, tool("s", fmt.Sprintf("tool%d", i), "common"))
	}
	replace(t, r, "s", all...)
	expect.Equal(t, r.tools.awaitsSearch(r.Snapshot()), false, "the index of %d tools waits for a search", len(all))
	replace(t, r, "s", all[1:]...)
	expect.Equal(t, r.tools.awaitsSearch(r.Snapshot()), true, "the index of %d tools waits for a search", maxUnsearched)
	if hits, err := searchTools(r, t.Context(), Query{Words: Words("common"), Limit: len(all)}); len(hits) != maxUnsearched || err != nil {
		t.Errorf("the first search finds %d of %d tools: %v", len(hits), maxUnsearched, err)
	}
	replace(t, r, "s", all[0])
	expect.Equal(t, r.tools.awaitsSearch(r.Snapshot()), false, "the index waits for another search")
	expect.Equal(t, r.others.awaitsSearch(r.Snapshot()), true, "the index of other items, which nobody searched, waits")
}

func TestSearchEndsWithItsContext(t *testing.T) {
	r := open(t)
	replace(t, r, "s", tool("s", "one", ""))
	r.tools.writing <- struct{}{} // someone is indexing
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := searchTools(r, ctx, Query{Words: Words("one")}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-r.tools.writing
	want(t, "after the wait", hits(t, r, Query{Words: Words("one")}), "s:one")
}

func TestConcurrentUse(t *testing.T) {
	r := newSearchable()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx, zap.NewNop()); err != nil {
			t.Error(err)
		}
	})
	var work sync.WaitGroup
	for w := range 4 {
		server := fmt.Sprintf("server%d", w)
		work.Go(func() {
			for i := range 50 {
				if _, err := r.Replace(server, registry.Offer{Tools: []registry.NormalizedTool{tool(server, "steady", "common"), tool(server, fmt.Sprintf("tool%d", i), "common")}}); err != nil {
					t.Error(err)
				}
				if i%10 == 9 {
					r.Remove(server)
				}
			}
		})
		work.Go(func() {
			for range 50 {
				found, err := searchTools(r, ctx, Query{Words: Words("common steady")})
				if err != nil {
					t.Error(err)
				}
				for _, hit := range found {
					if hit.Tool == nil || !strings.Contains(hit.Tool.Description, "common") {
						t.Errorf("hit %v", hit.Tool)
					}
				}
				_ = r.Snapshot().FindByCapability("web")
			}
		})
		work.Go(func() {
			for range 50 {
				c, err := r.Tools(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				within := c.Within(r.Snapshot().Filtered(named("steady"), nil))
				found, err := c.Search(ctx, Query{Words: Words("common"), Within: within})
				if err != nil || slices.ContainsFunc(found, func(h Hit) bool { return h.Tool.Name != "steady" }) {
					t.Errorf("found %v, %v", listed(found), err)
				}
			}
		})
	}
	work.Wait()
	cancel()
	running.Wait()
}

// searchTools returns the tools that match the query.
func searchTools(r *searchable, ctx context.Context, q Query) ([]Hit, error) {
	c, err := r.Tools(ctx)
	if err != nil {
		return nil, err
	}
	return c.Search(ctx, q)
}

func prompt(server, name, description string) registry.Prompt {
	return registry.Prompt{ID: registry.ID(server, name), Server: server, Name: name, Description: description,
		Definition: fmt.Appendf(nil, `{"name":%q,"arguments":[{"name":"topic","description":"What it is about","required":true},{"name":"tone"}]}`, name)}
}

func resource(server, uri, name string) registry.Resource {
	return registry.Resource{ID: registry.ID(server, uri), Server: server, URI: uri, Name: name, MIMEType: "text/plain", Definition: fmt.Appendf(nil, `{"uri":%q}`, uri)}
}

func template(server, uri, name string) registry.Template {
	return registry.Template{ID: registry.ID(server, uri), Server: server, URI: uri, Name: name, Definition: fmt.Appendf(nil, `{"uriTemplate":%q}`, uri)}
}

// everything returns an offer that has one of each.
func everything(server string) registry.Offer {
	return registry.Offer{
		Tools:        []registry.NormalizedTool{tool(server, "send_letter", "Send a letter")},
		Prompts:      []registry.Prompt{prompt(server, "draft", "Draft a letter")},
		Resources:    []registry.Resource{resource(server, "file:///notes/harbour.md", "Harbour")},
		Templates:    []registry.Template{template(server, "mail://{folder}/{message}", "Message")},
		Capabilities: json.RawMessage(`{"tools":{},"prompts":{},"extensions":{"x":1}}`),
		Extensions:   json.RawMessage(`{"x":1}`),
	}
}

func offer(t *testing.T, r *searchable, server string, o registry.Offer) bool {
	t.Helper()
	changed, err := r.Replace(server, o)
	expect.OK(t, err)
	return changed
}

func others(t *testing.T, r *searchable, q Query) []string {
	t.Helper()
	c, err := r.Others(t.Context())
	expect.OK(t, err)
	found, err := c.Search(t.Context(), q)
	expect.OK(t, err)
	var all []string
	for _, hit := range found {
		all = append(all, hit.Kind()+" "+hit.ID())
	}
	return all
}

func TestSearchOthers(t *testing.T) {
	r := open(t)
	want(t, "in the empty registry", others(t, r, Query{Words: Words("anything")}))
	o := everything("post")
	o.Resources[0].Title = "Tides"
	offer(t, r, "post", o)
	offer(t, r, "archive", registry.Offer{Resources: []registry.Resource{resource("archive", "db://ledger", "Accounts")}})

	const draft, harbour, message, ledger = "prompt post:draft", "resource post:file:///notes/harbour.md",
		"template post:mail://{folder}/{message}", "resource archive:db://ledger"
	want(t, "name", others(t, r, Query{Words: Words("drafting")}), draft)
	want(t, "argument", others(t, r, Query{Words: Words("topic")}), draft)
	want(t, "argument's description", others(t, r, Query{Words: Words("what is it about?")}), draft)
	want(t, "title", others(t, r, Query{Words: Words("tide")}), harbour)
	want(t, "words of a URI", others(t, r, Query{Words: Words("ledger")}), ledger)
	want(t, "words of a template", others(t, r, Query{Words: Words("folder")}), message)
	want(t, "server", others(t, r, Query{Words: Words("archive")}), ledger)
	want(t, "resources", others(t, r, Query{Words: Words("post"), Capabilities: []string{registry.KindResource}}), message, harbour)
	want(t, "prompts of a server", others(t, r, Query{Words: Words("draft ledger topic"), Servers: []string{"archive"}}), ledger)
	want(t, "tools", others(t, r, Query{Words: Words("send")}))
	r.Remove("post")
	want(t, "what is gone", others(t, r, Query{Words: Words("draft")}))
}

// What is no tool changes nothing in the search for tools.
func TestToolsAreSearchedAlone(t *testing.T) {
	r := open(t)
	offer(t, r, "s", registry.Offer{Tools: everything("s").Tools})
	before, err := r.Tools(t.Context())
	expect.OK(t, err)
	for i := range 2 * maxUpdates {
		o := everything("s")
		o.Prompts[0].Description = fmt.Sprint("Send a letter ", i)
		offer(t, r, "s", o)
		after, err := r.Tools(t.Context())
		expect.OK(t, err)
		if after.Snapshot != r.Snapshot() || fmt.Sprint(after.docFreq, after.length) != fmt.Sprint(before.docFreq, before.length) {
			t.Fatalf("statistics of version %d: %v, before: %v", after.Snapshot.Version, after.docFreq, before.docFreq)
		}
	}
	expect.Equal(t, r.tools.updates, 1, "updates of the index of tools")
	want(t, "search", hits(t, r, Query{Words: Words("letter")}), "s:send_letter")
}

// One ID may mean one thing of each kind.
func TestOthersOfOneID(t *testing.T) {
	r := open(t)
	offer(t, r, "s", registry.Offer{
		Tools: []registry.NormalizedTool{tool("s", "x", "")}, Prompts: []registry.Prompt{prompt("s", "x", "")},
		Resources: []registry.Resource{resource("s", "x", "")}, Templates: []registry.Template{template("s", "x", "")},
	})
	c, err := r.Others(t.Context())
	if err != nil || len(c.docs) != 3 {
		t.Errorf("%d documents, error %v", len(c.docs), err)
	}
}
