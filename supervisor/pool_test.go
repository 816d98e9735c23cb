//go:build unix

package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/launch"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// asking returns a legacy server that sends its clients requests, and keeps sessions.
func asking(t *testing.T, answer func(w http.ResponseWriter, v visit) bool) (*far, *fixture) {
	srv := newFar(t, func(f *far) { f.id, f.answer = "s", answer })
	entry := at(srv.URL, config.StreamableHTTP)
	f := supervise(t, entry)
	f.await("r", status.Ready)
	f.launcher.Cache.Edit(entry, func(r *launch.ProbeResult) { r.AsksElicitation = true })
	return srv, f
}

func visitor(name string) *client {
	return &client{name: name, modern: true, capabilities: `{"elicitation":{},"roots":{}}`}
}

func (f *fixture) callAs(ctx context.Context, from session.Client) error {
	return f.callToolAs(ctx, from, `{"name":"echo"}`)
}

func (f *fixture) callToolAs(ctx context.Context, from session.Client, params string) error {
	s, err := f.Session(ctx, "r", from)
	if err == nil {
		_, err = s.Call(ctx, session.Request{Method: "tools/call", Params: json.RawMessage(params), From: from})
	}
	return err
}

// The session of a call that was given up is not acquired again: its server may still
// ask on that client's behalf.
func TestAcquireAfterCancel(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{}, 1)
	hang <- struct{}{}
	ctx, giveUp := context.WithCancel(t.Context())
	srv, f := asking(t, func(_ http.ResponseWriter, v visit) bool {
		if v.m.Method != "tools/call" {
			return false
		}
		select {
		case <-hang:
			giveUp()
			<-v.Context().Done()
			return true
		default:
			return false
		}
	})
	if err := f.callAs(ctx, visitor("a")); !errors.Is(err, context.Canceled) {
		t.Fatalf("the first call: %v", err)
	}
	for range 2 { // the second of these has the session of the first
		expect.OK(t, f.callAs(t.Context(), visitor("b")))
	}
	expect.Equal(t, len(srv.seen(by("POST", peer.Initialize))), 3, "sessions")
}

// A session for requests waits for the next one, and ends when no request has used it for freeTime.
func TestFreeSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("r", "-era", "legacy", "-tools", "echo")
		f := superviseWith(t, t.TempDir(), func(*Supervisor) {}, entry)
		f.await("r", status.Ready)
		f.launcher.Cache.Edit(entry, func(r *launch.ProbeResult) { r.AsksElicitation = true })
		for _, after := range []time.Duration{0, freeTime - time.Second} {
			time.Sleep(after)
			expect.OK(t, f.callAs(t.Context(), visitor("a")))
			expect.Equal(t, f.starter.Started(), 2, "processes")
		}
		time.Sleep(freeTime + time.Minute)
		expect.Equal(t, len(f.servers.get("r").pool.all()), 0, "sessions for requests")
	})
}

// Requests at the same time, and of clients with other roots, have sessions of their own.
func TestRequestsShareNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("r", "-era", "legacy", "-tools", "sleep", "-ask-roots")
		f := superviseWith(t, t.TempDir(), func(*Supervisor) {}, entry)
		f.await("r", status.Ready)
		f.launcher.Cache.Edit(entry, func(r *launch.ProbeResult) { r.AsksRoots = true })
		for _, test := range []struct {
			clients   []string
			processes int64 // started so far, with the shared one
		}{{[]string{"a", "a"}, 3}, {[]string{"a"}, 3}, {[]string{"b"}, 4}, {[]string{"b", "a", "a", "a"}, 5}} {
			var calls sync.WaitGroup
			for _, name := range test.clients {
				calls.Go(func() {
					if err := f.callToolAs(t.Context(), visitor(name), `{"name":"sleep","arguments":{"ms":1000}}`); err != nil {
						t.Error(err)
					}
				})
			}
			calls.Wait()
			expect.Equal(t, f.starter.Started(), test.processes, "processes after calls of %v", test.clients)
		}
	})
}

// An acquired session ends when the server's life does, whatever is under way.
func TestAcquiredSessionEnds(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	_, f := asking(t, func(_ http.ResponseWriter, v visit) bool {
		if v.m.Method != "tools/call" {
			return false
		}
		close(begun)
		<-v.Context().Done()
		return true
	})
	ended := make(chan error, 1)
	go func() { ended <- f.callAs(context.Background(), visitor("a")) }()
	<-begun
	f.stop()
	if err := <-ended; !errors.Is(err, session.ErrClosed) {
		t.Errorf("the call: %v", err)
	}
}

// A client's own session that was opened while an edited entry started is not used
// once that entry runs: it has the secrets of the entry before.
func TestOwnSessionDuringAnEdit(t *testing.T) {
	t.Parallel()
	starting, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	srv, f := asking(t, func(w http.ResponseWriter, v visit) bool { return false })
	srv.early = func(w http.ResponseWriter, v visit) bool {
		if v.m.Method == peer.Initialize && v.Header.Get("Authorization") == "Bearer new" {
			once.Do(func() { close(starting) })
			<-proceed
		}
		return false
	}
	home := clientOf("a")
	home.capabilities = `{"elicitation":{}}`
	edited := at(srv.URL, config.StreamableHTTP)
	edited.Headers = map[string]string{"Authorization": "Bearer new"}
	f.launcher.Cache.Edit(edited, func(r *launch.ProbeResult) { r.AsksElicitation = true })
	f.apply(edited)
	<-starting
	expect.OK(t, f.callAs(t.Context(), home))
	if f.Supervisor.servers.get("r").pool.of(home.Home()) == nil {
		t.Error("the client has no session of its own")
	}
	close(proceed)
	mcptest.WaitFor(t, "the edited entry to run", func() bool {
		f.callAs(t.Context(), visitor("b"))
		calls := srv.seen(by("POST", "tools/call"))
		return calls[len(calls)-1].Header.Get("Authorization") == "Bearer new"
	})
	mcptest.WaitFor(t, "the client's session with the entry before to end", func() bool { // which is a moment later
		return f.Supervisor.servers.get("r").pool.of(home.Home()) == nil
	})
	expect.OK(t, f.callAs(t.Context(), home))
	calls := srv.seen(by("POST", "tools/call"))
	expect.Equal(t, calls[len(calls)-1].Header.Get("Authorization"), "Bearer new", "after the edit the client's call had")
}

// Lists that differ because of what one client can do are not shown to others.
func TestListsOfAWeakerClient(t *testing.T) {
	t.Parallel()
	var weak atomic.Bool
	srv, f := asking(t, func(w http.ResponseWriter, v visit) bool {
		switch {
		case v.m.Method == "ping":
			weak.Store(true)
			say(w, `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			say(w, `data: {"jsonrpc":"2.0","id":%s,"result":{}}`, v.m.ID)
		case v.m.Method == "tools/list" && weak.Load():
			result(w, v.m, `{"tools":[]}`)
		default:
			return false
		}
		return true
	})
	expect.OK(t, f.callAs(t.Context(), visitor("a")))
	time.Sleep(2 * relistSoon)
	if n, tools := f.listings("r"); n != 1 || !strings.Contains(tools, "echo") {
		t.Errorf("listed %d times: %s (%v)", n, tools, methods(srv.seen(func(visit) bool { return true })))
	}
}

// A change of the tools that one client's own session tells of is listed from that session.
func TestListsOfTheSessionThatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("r", "-era", "legacy", "-tools", "grow")
		f := supervise(t, entry)
		f.await("r", status.Ready)
		f.launcher.Cache.Edit(entry, func(r *launch.ProbeResult) { r.AsksElicitation = true })
		home := clientOf("a")
		home.capabilities = `{"elicitation":{}}`
		expect.OK(t, f.callToolAs(t.Context(), home, `{"name":"grow"}`))
		mcptest.WaitFor(t, "the changed tools to be listed", func() bool {
			_, tools := f.listings("r")
			return strings.Count(tools, `"inputSchema"`) == 2
		})
	})
}

// A client has a session of its own only with a server that has asked for what the client
// can answer, and the status says so.
func TestOwnSessionOnlyForWhatTheServerAsks(t *testing.T) {
	t.Parallel()
	const all = `{"roots":{},"sampling":{},"elicitation":{}}`
	for _, tc := range []struct {
		asked, capabilities string
		home                bool
		roots               []string // of the entry
		want                string   // who has a session next to the shared one, and why
	}{
		{"", all, true, nil, ""},
		{"roots/list", `{"elicitation":{},"sampling":{}}`, true, nil, ""},
		{"elicitation/create", `{"roots":{"listChanged":true}}`, true, nil, ""},
		{"sampling/createMessage elicitation/create", `{"roots":{}}`, false, nil, ""},
		{"roots/list", `{"roots":{}}`, true, []string{}, ""},
		{"roots/list", `{"roots":{}}`, true, []string{"/a"}, ""},
		{"roots/list sampling/createMessage", all, true, []string{}, "ann alone, since the server asks for sampling"},
		{"roots/list", `{"roots":{}}`, true, nil, "ann alone, since the server asks for roots"},
		{"sampling/createMessage", `{"sampling":{}}`, true, nil, "ann alone, since the server asks for sampling"},
		{"roots/list sampling/createMessage elicitation/create", all, true, nil, "ann alone, since the server asks for roots and sampling and elicitation"},
		{"elicitation/create", all, false, nil, "one request at a time, since the server asks for what only the client of a request can answer"},
	} {
		srv := newFar(t, func(f *far) { f.id = "s" })
		entry := at(srv.URL, config.StreamableHTTP)
		entry.Roots = tc.roots
		f := supervise(t, entry)
		f.await("r", status.Ready)
		f.launcher.Cache.Edit(entry, func(r *launch.ProbeResult) {
			for _, method := range strings.Fields(tc.asked) {
				r.Asked(method)
			}
		})
		c := &client{name: "ann", capabilities: tc.capabilities}
		if tc.home {
			c.home = c
		}
		expect.OK(t, f.callAs(t.Context(), c))
		want := ""
		if tc.want != "" {
			want = "2 sessions: one is shared; one is for " + tc.want
		}
		expect.Equal(t, f.state("r").Several(), want, "asked for %q of %s", tc.asked, tc.capabilities)
	}
}

// The shared session of legacy clients is a legacy one if the server has that; a modern client gets
// a modern session if the server has that. No further process is left, and the era of the server is
// not taken from its clients.
func TestEraOfSharedSession(t *testing.T) {
	held := filepath.Join(t.TempDir(), "held")
	const newer = "clients of newer revisions, since the server also speaks newer revisions"
	for _, tc := range []struct {
		flags        string
		legacy       bool   // all clients are when the server starts
		era          string // of the shared session
		known, later peer.Era
		from         string // the client that calls: legacy, modern, or a command
		other        string // who has a session next to the shared one, and why
		started      int64  // processes
	}{
		{"-era both", true, "legacy", peer.UnknownEra, peer.UnknownEra, "legacy", "", 1},
		{"-era both", true, "legacy", peer.UnknownEra, peer.BothEras, "modern", newer, 2},
		{"-era both", true, "legacy", peer.UnknownEra, peer.UnknownEra, "command", "", 1},
		{"-era both", false, "modern", peer.BothEras, peer.BothEras, "modern", "", 1},
		{"-era both", false, "modern", peer.BothEras, peer.BothEras, "legacy", "clients of older revisions, since the server also speaks older revisions", 2},
		{"-era legacy", true, "legacy", peer.UnknownEra, peer.LegacyEra, "modern", "", 2},
		{"-era legacy -exit-on-unknown", true, "legacy", peer.UnknownEra, peer.LegacyEra, "modern", "", 3},
		{"-era both -exclusive " + held, true, "legacy", peer.UnknownEra, peer.UnknownEra, "modern", "", 3},
		{"-era modern", true, "modern", peer.ModernEra, peer.ModernEra, "legacy", "", 2},
		{"-era modern -exit-on-unknown", true, "modern", peer.ModernEra, peer.ModernEra, "legacy", "", 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			entry := fake("r", strings.Fields(tc.flags)...)
			f := superviseWith(t, t.TempDir(), func(v *Supervisor) { v.options.Legacy = func() bool { return tc.legacy } }, entry)
			if st := f.await("r", status.Ready); st.Era != tc.era || f.launcher.Cache.Get(entry).Era != tc.known {
				t.Errorf("%+v: the shared session is %s, and the server is known as %q", tc, st.Era, f.launcher.Cache.Get(entry).Era)
			}
			c := clientOf("ann")
			c.modern = tc.from != "legacy"
			if tc.from == "command" {
				c.home = nil
			}
			for range 2 {
				expect.OK(t, f.callAs(t.Context(), c), "%+v", tc)
			}
			st := f.state("r")
			_, other, _ := strings.Cut(st.Several(), " is shared; ")
			if _, other, _ = strings.Cut(other, " is for "); other != tc.other || f.starter.Started() != tc.started || f.launcher.Cache.Get(entry).Era != tc.later {
				t.Errorf("%+v: %q; %d processes; the server is known as %q", tc, st.Several(), f.starter.Started(), f.launcher.Cache.Get(entry).Era)
			}
		})
	}
}

// A shared session that is opened again next to the session of the clients of an era leaves that
// era to it, whatever clients there are.
func TestEraAfterCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, first := range []bool{true, false} {
			var legacy atomic.Bool
			legacy.Store(first)
			f := superviseWith(t, t.TempDir(), func(v *Supervisor) { v.options.Legacy = legacy.Load }, fake("r", "-era", "both", "-tools", "echo,pid,crash"))
			before := f.await("r", status.Ready)
			c := clientOf("ann")
			c.modern = first
			expect.OK(t, f.callAs(t.Context(), c))
			legacy.Store(!first)
			f.call("r", "crash", "{}")
			mcptest.WaitFor(t, "the server to start again", func() bool { st := f.state("r"); return st.State == status.Ready && st.PID != before.PID })
			after := f.state("r")
			if after.Era != before.Era || len(after.Sessions) != 1 {
				t.Errorf("%v: the shared session was %s and is %s next to %v", first, before.Era, after.Era, after.Sessions)
			}
		}
	})
}

// An elsewhere is a place at which the entry of the server r has another token.
type elsewhere string

func (e elsewhere) Variant(server string) *Variant {
	if server != "r" {
		return nil
	}
	entry := at("", config.StreamableHTTP)
	entry.URL, entry.Headers = string(e), map[string]string{"Authorization": "Bearer theirs"}
	return &Variant{entry, "clients differ in TOKEN"}
}

// Clients with the same variant of a server share a session, next to the others' session, which ends with the last of them.
func TestVariant(t *testing.T) {
	t.Parallel()
	srv := newFar(t, func(f *far) { f.id = "s" })
	f := supervise(t, at(srv.URL, config.StreamableHTTP))
	f.await("r", status.Ready)
	plain, one, two := clientOf("plain"), clientOf("one"), clientOf("two")
	one.place, two.place = elsewhere(srv.URL), elsewhere(srv.URL)
	for c, want := range map[*client]string{plain: "Bearer x", one: "Bearer theirs", two: "Bearer theirs"} {
		expect.OK(t, f.callAs(t.Context(), c))
		calls := srv.seen(by("POST", "tools/call"))
		expect.Equal(t, calls[len(calls)-1].Header.Get("Authorization"), want, "%s: the call", c.name)
	}
	const both = "2 sessions: one is shared; one is for one and two alone, since clients differ in TOKEN"
	expect.Equal(t, f.state("r").Several(), both)
	for _, left := range []struct {
		*client
		want string
	}{{one, "2 sessions: one is shared; one is for two alone, since clients differ in TOKEN"}, {two, ""}} {
		f.Release(left.client)
		expect.Equal(t, f.state("r").Several(), left.want, "after %s has left", left.name)
	}
}
