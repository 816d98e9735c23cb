package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/httpd"
	"github.com/mcp-metarouter/metarouter/server/internal/tools"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// serveTwo serves the profiles one and two, whose tool a__x is run by execute.
func serveTwo(t *testing.T, execute func(context.Context, selector.Call) (selector.Result, error)) (*fakeProfiles, *Servers, *web) {
	p := newFakeProfiles(map[string]string{"one": "a", "two": "a"})
	s, w := serveProfiles(t, p, HTTPOptions{})
	for _, profile := range []string{"one", "two"} {
		of, _ := s.of(profile)
		of.router.(*fakeRouter).execute = execute
	}
	return p, s, w
}

// callAt calls a tool for a modern client that chose the profile.
func (w *web) callAt(profile, tool, more string) string {
	w.t.Helper()
	_, answer := w.text(http.MethodPost, "/mcp/p/"+profile, rpc("tools/call", fmt.Sprintf(`"name":%q%s,%s`, tool, more, askingMeta)), modernHeaders("tools/call", tool)...)
	return answer
}

// asks asks the client, and returns what it answers.
func asks(ctx context.Context, c selector.Call) (selector.Result, error) {
	answer, err := c.From.Ask(ctx, "a", session.Message{Method: "elicitation/create", Params: json.RawMessage(`{"message":"Who?"}`)})
	return selector.Result{JSON: fmt.Appendf(nil, `{"content":[],"answer":%q}`, answer)}, err
}

var stateIn = regexp.MustCompile(`"requestState":("[^"]+")`)

// keyIn returns the key of the only question in an answer.
func keyIn(t *testing.T, answer string) string {
	t.Helper()
	found := regexp.MustCompile(`"(input-[0-9a-f-]+)":`).FindAllStringSubmatch(answer, -1)
	if len(found) != 1 {
		t.Fatalf("not one question: %s", answer)
	}
	return found[0][1]
}

// The calls that wait for their clients are bounded together, whatever the profiles. What waits in
// one profile can't be resumed in another.
func TestSuspendedCallsOfProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s, w := serveTwo(t, asks)
		var state, key string
		for i := range 100 { // as many as one principal may have
			answer := w.callAt([]string{"one", "two"}[i%2], "a__x", "")
			found := stateIn.FindStringSubmatch(answer)
			if found == nil {
				t.Fatalf("call %d: %s", i, answer)
			}
			state, key = found[1], keyIn(t, answer) // in the end of two
		}
		for _, profile := range []string{"one", "two"} {
			expect.Contains(t, w.callAt(profile, "a__x", ""), "busy", "one more in %s", profile)
		}
		reply := `,"inputResponses":{"` + key + `":{"action":"accept"}},"requestState":` + state
		expect.Contains(t, w.callAt("one", "a__x", reply), "-32602", "resumed in another profile")
		expect.Contains(t, w.callAt("two", "a__x", reply), `accept`, "resumed")
		expect.Contains(t, w.callAt("one", "a__x", ""), "input_required", "in the place of the one that has ended")
		p.set("two", "")
		synctest.Wait()
		for i := range 49 {
			if answer := w.callAt("one", "a__x", ""); !strings.Contains(answer, "input_required") {
				t.Fatalf("call %d after the other profile has ended: %s", i, answer)
			}
		}
		if one, _ := s.of("one"); one.clients.Suspended() != 100 {
			t.Errorf("%d calls are suspended", one.clients.Suspended())
		}
	})
}

// The parameters of calls that wait for their clients are bounded together, also those of the requests that go on with them.
func TestSuspendedBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, w := serveTwo(t, asks)
		long := strings.Repeat("x", 10<<20)
		var states []string
		for range 3 {
			states = append(states, stateIn.FindStringSubmatch(w.callAt("one", "a__x", ""))[1])
			expect.Contains(t, w.callAt("two", "a__x", `,"arguments":{"x":"`+long+`"}`), "input_required", "a long call")
		}
		for i, state := range states {
			answer := w.callAt("one", "a__x", `,"inputResponses":{"other":{"x":"`+long+long[:2<<20]+`"}},"requestState":`+state)
			expect.Equal(t, strings.Contains(answer, "busy"), i == 2, "a long request that goes on with call %d: busy", i)
		}
		one, _ := s.of("one")
		expect.Equal(t, one.clients.Suspended(), 2, "calls that are left")
		expect.Contains(t, w.callAt("one", "a__x", ""), "input_required", "a short call")
		around := `{"rest":"` + long + `",` + strings.TrimPrefix(rpc("tools/call", `"name":"a__x",`+askingMeta), "{")
		_, answer := w.text(http.MethodPost, "/mcp/p/one", around, modernHeaders("tools/call", "a__x")...)
		expect.Contains(t, answer, "more than 65536 bytes besides its params", "a message whose line is kept")
	})
}

// The parameters of the first request count as long as the call waits: a short request may go on with it.
func TestSuspendedBytesOfFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, w := serveTwo(t, func(ctx context.Context, c selector.Call) (selector.Result, error) {
			_, _ = asks(ctx, c)
			return asks(ctx, c)
		})
		meta := fmt.Sprintf(`,"_meta":{"long":%q,`, strings.Repeat("x", 10<<20))
		for i := range 7 {
			body := strings.Replace(rpc("tools/call", `"name":"a__x",`+askingMeta), `,"_meta":{`, meta, 1)
			_, answer := w.text(http.MethodPost, "/mcp/p/one", body, modernHeaders("tools/call", "a__x")...)
			expect.Equal(t, strings.Contains(answer, "busy"), i == 6, "call %d: busy", i)
			if i < 6 {
				answer = w.callAt("one", "a__x", `,"inputResponses":{"`+keyIn(t, answer)+`":{"action":"accept"}},"requestState":`+stateIn.FindStringSubmatch(answer)[1])
				expect.Contains(t, answer, "input_required", "a short request that goes on with it")
			}
		}
	})
}

// A long result is kept for clients of its profile alone, and the results of all profiles share
// one bound.
func TestKeptResultsOfProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat("x", 10<<20)
		result := selector.Result{Limit: 1, JSON: fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, wire.Marshal(text))}
		p := newFakeProfiles(make(map[string]string))
		var names []string
		for i := range 14 {
			names = append(names, fmt.Sprint("p", i))
			p.servers[names[i]] = "a"
		}
		s, w := serveProfiles(t, p, HTTPOptions{})
		uris := make(map[string]string)
		kept := regexp.MustCompile(`"uri":"(metarouter-result:[^"]+)"`)
		for _, name := range names {
			of, _ := s.of(name)
			of.router.(*fakeRouter).execute = func(context.Context, selector.Call) (selector.Result, error) { return result, nil }
			uris[name] = kept.FindStringSubmatch(w.callAt(name, "a__x", ""))[1]
		}
		read := func(profile, uri string) string {
			return w.callAt(profile, "read_result", fmt.Sprintf(`,"arguments":{"uri":%q,"limit":10}`, uri))
		}
		left := 0
		for i, name := range names {
			if strings.Contains(read(name, uris[name]), "xxxxxxxxxx") {
				left++
			}
			expect.Contains(t, read(names[(i+1)%len(names)], uris[name]), "no result is kept", "%s reads what %s", names[(i+1)%len(names)], name)
		}
		expect.Equal(t, left, 128/10, "results of 10 MiB are kept")
	})
}

// Subscriptions are bounded together.
func TestSubscriptionsOfProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, w := serveTwo(t, asks)
		listen := rpc("subscriptions/listen", `"notifications":{"toolsListChanged":true},`+modernMeta)
		for range s.budget.Bound(budget.Listeners).All {
			s.budget.Take(budget.Listeners, nil, 0)
		}
		for _, profile := range []string{"one", "two"} {
			if _, answer := w.text(http.MethodPost, "/mcp/p/"+profile, listen, modernHeaders("subscriptions/listen", "")...); !strings.Contains(answer, "busy") {
				t.Errorf("%s: %s", profile, answer)
			}
			of, _ := s.of(profile)
			expect.Equal(t, of.notifier.subscriptions.budget, s.budget, "%s has subscriptions of its own", profile)
		}
		s.budget.Release(budget.Listeners, nil, 0)
		for range 3 { // one after the other
			response := w.do(http.MethodPost, "/mcp/p/one", listen, modernHeaders("subscriptions/listen", "")...)
			reading(t, response).want("", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"`)
			response.Body.Close()
			synctest.Wait()
		}
	})
}

// Of the clients without a session, each profile remembers the last ones.
func TestVisitorsOfProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, w := serveTwo(t, asks)
		visit := func(profile string, i int) {
			w.text(http.MethodPost, "/mcp/p/"+profile+"/tools/list", "{}", "User-Agent", fmt.Sprint("agent", i))
		}
		for i := range 10 {
			visit("one", i)
		}
		for i := range 150 {
			visit("two", i)
		}
		counts := make(map[string]int)
		for _, c := range s.Clients() {
			counts[c.Profile]++
		}
		if counts["one"] != 10 || counts["two"] != 100 {
			t.Errorf("remembers %v", counts)
		}
	})
}

// A countedRouter counts who listens.
type countedRouter struct {
	*fakeRouter
	listening *atomic.Int32
}

func (r countedRouter) Listen(f func(string, session.Client, session.Message)) func() {
	r.listening.Add(1)
	return func() { r.listening.Add(-1) }
}

// Nothing runs, and nothing is kept, for a server that was dropped.
func TestDroppedServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var listening atomic.Int32
		p := newFakeProfiles(map[string]string{"one": "a", "two": "a"})
		profiles := p.profiles()
		open := profiles.Open
		profiles.Open = func(v View, chosen []string) (Router, Options) {
			r, o := open(v, chosen)
			fake := r.(*fakeRouter)
			fake.execute = func(context.Context, selector.Call) (selector.Result, error) {
				return selector.Result{Limit: 1, JSON: json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 1000) + `"}]}`)}, nil
			}
			return countedRouter{fake, &listening}, o
		}
		s := NewServers(profiles)
		w := serveHandler(t, s.Handler(HTTPOptions{}), s.Run)
		for _, profile := range []string{"one", "two"} {
			w.callAt(profile, "a__x", "")
		}
		dropped, _ := s.of("two")
		synctest.Wait()
		expect.Equal(t, listening.Load(), 3, "servers listen")
		p.set("two", "")
		time.Sleep(time.Second) // as long as a notifier may gather changes
		synctest.Wait()
		expect.Equal(t, listening.Load(), 2, "servers listen after one was dropped")
		if all := dropped.clients.Infos(); len(all) > 0 {
			t.Errorf("the dropped server has clients: %+v", all)
		}
	})
}

// A call whose profile is removed while it runs does not wait for its client any more: no one could
// resume it.
func TestCallOfDroppedServerIsNotSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		removed := make(chan struct{})
		p, s, w := serveTwo(t, func(ctx context.Context, c selector.Call) (selector.Result, error) {
			<-removed
			return asks(ctx, c)
		})
		dropped, _ := s.of("one")
		answer := make(chan string, 1)
		go func() { answer <- w.callAt("one", "a__x", "") }()
		synctest.Wait()
		p.set("one", "")
		time.Sleep(time.Second)
		synctest.Wait()
		close(removed)
		if got := <-answer; strings.Contains(got, "input_required") {
			t.Errorf("answered %s", got)
		}
		expect.Equal(t, dropped.clients.Suspended(), 0, "calls are suspended")
	})
}

// A server is dropped after an hour without use, unless a client has a session or waits for
// changes.
func TestIdleServerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProfiles(map[string]string{"idle": "a", "open": "a", "waits": "a"})
		s, w := serveProfiles(t, p, HTTPOptions{})
		listen := rpc("subscriptions/listen", `"notifications":{"toolsListChanged":true},`+modernMeta)
		stream := w.do(http.MethodPost, "/mcp/p/waits", listen, modernHeaders("subscriptions/listen", "")...)
		reading(t, stream).want("", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"`)
		read := make(chan struct{})
		go func() {
			defer close(read)
			io.Copy(io.Discard, stream.Body)
		}()
		of, _ := s.of("open")
		c := of.clients.Open(nil, nil, "stdio", conversation.Identity{})
		before, _ := s.of("idle")
		want := func(after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			expect.Equal(t, len(s.all()), want, "servers")
		}
		want(idleTime/2, 4)
		want(2*idleTime, 3)
		if again, ok := s.of("idle"); !ok || again == before {
			t.Error("the idle server is not made again")
		}
		c.Close()
		stream.Body.Close()
		<-read
		want(3*idleTime, 1)
	})
}

// Limits of the packages below, which the tests of the whole server reach.
const (
	maxInFlight       = 1000
	maxID             = 1024
	maxBatch          = 100
	batchWidth        = 16
	maxAnswers        = wire.MaxLine
	suspendTime       = 10 * time.Minute
	readerCheck       = time.Second
	maxQueued         = 10_000
	readTimeout       = time.Minute
	patience          = time.Minute
	lastPatience      = 2 * time.Second
	lazily            = 500 * time.Millisecond
	longer            = 5 * time.Second
	keepAlive         = 25 * time.Second
	maxKept           = 2 << 20
	maxUnreadMessages = 10_000
	defaultBudget     = 2000
	unsureLimit       = 10
	maxMore           = 10
	headerSession     = "Mcp-Session-Id"
	headerVersion     = "Mcp-Protocol-Version"
	headerMethod      = "Mcp-Method"
	headerName        = "Mcp-Name"
	headerLastID      = "Last-Event-Id"
)

// What our own tools and routes answer.
type (
	found       = tools.Found
	description = tools.Description
	proposal    = tools.Proposal
	truncation  = tools.Truncation
	meshNode    = httpd.MeshNode
)
