package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// fakeProfiles are profiles, each of which allows the tools of one server.
type fakeProfiles struct {
	mu      sync.Mutex
	servers map[string]string // by profile
	edited  chan struct{}
	opened  []string
}

func newFakeProfiles(servers map[string]string) *fakeProfiles {
	return &fakeProfiles{servers: servers, edited: make(chan struct{})}
}

func (p *fakeProfiles) profiles() Profiles {
	all := newFake(tool("a", "x"), tool("b", "y"))
	all.servers = []status.Server{info("a", status.Ready, 1), info("b", status.Ready, 1)}
	return Profiles{
		Open: func(_ View, chosen []string) (Router, Options) {
			p.opened = append(p.opened, strings.Join(chosen, "+"))
			if len(chosen) == 0 {
				return all, Options{Mode: exposure.Direct}
			}
			itself := ""
			for _, name := range chosen {
				if server, ok := strings.CutPrefix(name, "s/"); ok {
					itself = server
				}
			}
			var tools []registry.NormalizedTool
			seen := newFake()
			for _, server := range []string{"a", "b"} {
				if !slices.ContainsFunc(chosen, func(name string) bool { return p.servers[name] != server }) {
					tools = append(tools, tool(server, map[string]string{"a": "x", "b": "y"}[server]))
					seen.servers = append(seen.servers, info(server, status.Ready, 1))
				}
			}
			for _, t := range tools {
				seen.replace(t.Server, t)
			}
			if itself != "" && len(tools) > 0 {
				seen.offer(itself, registry.Offer{Tools: tools, Version: "7", Capabilities: []byte(`{"tools":{},"prompts":{}}`), Look: []byte(`{"name":"own-` + itself + `","icons":[{"src":"https://example.com/i.png"}],"title":"The ` + itself + `"}`), Instructions: "Use " + itself + "."})
				return seen, Options{Mode: exposure.Direct, Names: exposure.Own, Itself: itself, Classifies: true}
			}
			return seen, Options{Mode: exposure.Direct}
		},
		Only: func(servers ...string) string { return "s/" + strings.Join(servers, ",") },
		Exists: func(name string) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.servers[name] != ""
		},
		Edited: func() <-chan struct{} {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.edited
		},
		Whole: all,
	}
}

// set edits a profile; with no server, it removes it.
func (p *fakeProfiles) set(name, server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.servers, name)
	if server != "" {
		p.servers[name] = server
	}
	close(p.edited)
	p.edited = make(chan struct{})
}

func TestServersOfProfiles(t *testing.T) {
	p := newFakeProfiles(map[string]string{"work": "a", "home": "b"})
	s := NewServers(p.profiles())
	work, _ := s.of("work")
	both, _ := s.of("work", "home")
	for _, test := range []struct {
		chosen []string
		want   *Server
	}{
		{nil, s.Default},
		{[]string{"work"}, work},
		{[]string{"work", "work"}, work},
		{[]string{"home", "work"}, both},
		{[]string{"home", "work", "home"}, both},
		{[]string{"other"}, nil},
		{[]string{"work", "other"}, nil},
		{[]string{""}, nil},
		{[]string{"work+home"}, nil},
	} {
		if got, ok := s.of(test.chosen...); got != test.want || ok != (test.want != nil) {
			t.Errorf("%q: another server, or none", test.chosen)
		}
	}
	expect.List(t, p.opened, []string{"", "work", "home+work"}, "made")
}

// Servers of many sets of profiles are bounded, but one with clients is kept.
func TestServersAreBounded(t *testing.T) {
	p := newFakeProfiles(map[string]string{})
	s := NewServers(p.profiles())
	for i := range maxServers + 20 {
		p.servers[string(rune('A'+i))] = "a"
	}
	first, _ := s.of("A")
	c := first.clients.Open(nil, nil, "stdio", conversation.Identity{})
	for i := range maxServers + 20 {
		s.of(string(rune('A' + i)))
	}
	if again, _ := s.of("A"); again != first || len(s.byPlace) > maxServers+1 {
		t.Errorf("%d servers, the one with a client dropped: %t", len(s.byPlace), again != first)
	}
	c.Close()
}

// Clients may choose many unions of few profiles: their servers are bounded as others are, and one
// that is idle is dropped. A server of a union ends with the last of its profiles.
func TestServersOfUnions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProfiles(map[string]string{})
		union := func(i int) string { return fmt.Sprintf("dev|ops-%d", i) }
		for i := range maxServers + 20 {
			p.servers[union(i)] = "a"
		}
		s, _ := serveProfiles(t, p, HTTPOptions{})
		for i := range maxServers + 20 {
			s.of(union(i))
		}
		first, _ := s.of(union(0), "dev|ops-1")
		if again, _ := s.of("dev|ops-1", union(0)); again != first || first == s.Default {
			t.Error("the order of the choices makes another server")
		}
		if n := len(s.all()); n > maxServers+1 {
			t.Errorf("%d servers", n)
		}
		time.Sleep(idleTime + time.Minute)
		p.set("other", "a") // an edit
		synctest.Wait()
		expect.Equal(t, len(s.all()), 1, "servers are left after an hour")
		s.of(union(3))
		p.set(union(3), "")
		synctest.Wait()
		if _, ok := s.of(union(3)); ok || len(s.all()) != 1 {
			t.Errorf("the server of a union whose profiles were removed is there: %t, of %d", ok, len(s.all()))
		}
	})
}

// serveProfiles serves the profiles over HTTP until the test ends.
func serveProfiles(t *testing.T, p *fakeProfiles, o HTTPOptions) (*Servers, *web) {
	s := NewServers(p.profiles())
	return s, serveHandler(t, s.Handler(o), s.Run)
}

// toolNames returns the names in a list of tools.
func toolNames(list string) (names []string) {
	for _, found := range regexp.MustCompile(`"name":"(\w+__\w+|x|y)"`).FindAllStringSubmatch(list, -1) {
		names = append(names, found[1])
	}
	return names
}

func TestProfileOfURL(t *testing.T) {
	_, w := serveProfiles(t, newFakeProfiles(map[string]string{"work": "a", "home": "b"}), HTTPOptions{})
	modern := modernHeaders("tools/list", "")
	for _, test := range []struct {
		path, body string
		header     []string
		want       []string
	}{
		{"/mcp", rpc("tools/list", modernMeta), modern, []string{"a__x", "b__y"}},
		{"/mcp/p/work", rpc("tools/list", modernMeta), modern, []string{"a__x"}},
		{"/mcp/p/home/", rpc("tools/list", modernMeta), modern, []string{"b__y"}},
		{"/mcp", rpc("tools/list", ""), nil, []string{"a__x", "b__y"}},
		{"/mcp/p/work", rpc("tools/list", ""), nil, []string{"a__x"}},
		{"/mcp/p/home", rpc("tools/list", ""), nil, []string{"b__y"}},
		{"/mcp/tools/list", "{}", nil, []string{"a__x", "b__y"}},
		{"/mcp/p/work/tools/list", "{}", nil, []string{"a__x"}},
		{"/mcp/p/home/tools/list/", "", nil, []string{"b__y"}},
	} {
		status, body := w.text(http.MethodPost, test.path, test.body, test.header...)
		if got := toolNames(body); status != http.StatusOK || !slices.Equal(got, test.want) {
			t.Errorf("%s: %d, tools %q, want %q", test.path, status, got, test.want)
		}
	}
	w.gets("a method of the name p", http.StatusNotFound, `"code":-32601`, http.MethodPost, "/mcp/p", "{}")
}

// A server alone is as itself: its own name, version, instructions and names of tools; within a profile too.
func TestServerOfURL(t *testing.T) {
	_, w := serveProfiles(t, newFakeProfiles(map[string]string{"work": "a", "s/a": "a", "s/b": "b"}), HTTPOptions{})
	for path, want := range map[string][]string{"/mcp/s/a": {"x"}, "/mcp/s/b/": {"y"}, "/mcp/p/work/s/a": {"x"}, "/mcp/p/work": {"a__x"}} {
		status, body := w.text(http.MethodPost, path, rpc("tools/list", ""))
		if got := toolNames(body); status != http.StatusOK || !slices.Equal(got, want) {
			t.Errorf("%s: %d, tools %q, want %q", path, status, got, want)
		}
	}
	w.gets("initialize", http.StatusOK, `"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true}},"serverInfo":{"name":"own-a","version":"7","icons":[{"src":"https://example.com/i.png"}],"title":"The a"},"instructions":"Use a."`, http.MethodPost, "/mcp/s/a", initializing)
	w.gets("a call", http.StatusOK, `x`, http.MethodPost, "/mcp/s/a/tools/call", `{"name":"x","arguments":{}}`)
	for _, path := range []string{"/mcp/s/none", "/mcp/s/A", "/mcp/p/work/s/b", "/mcp/p/none/s/a", "/mcp/s/a/s/b", "/mcp/s/a,b"} {
		w.gets(path, http.StatusNotFound, `"error"`, http.MethodPost, path, rpc("tools/list", ""))
	}
}

// A server as itself keeps tools that are called as ours are.
func TestItselfKeepsItsNames(t *testing.T) {
	r := newFake(tool("lib", "call_tool"), tool("lib", "find_tools"))
	s := newAlone(r, Options{Mode: exposure.Direct, Names: exposure.Own, Itself: "lib", FindTools: true})
	page, _ := s.catalog.View().Tools.Page("")
	expect.Equal(t, strings.Count(string(page), `"name"`), 2, "%s", page)
	for _, name := range []string{"call_tool", "find_tools"} {
		expect.Contains(t, string(page), `"name":"`+name+`"`)
		answer, err := perform(t.Context(), s, fmt.Appendf(nil, `{"name":%q,"arguments":{}}`, name))
		expect.OK(t, err)
		expect.Contains(t, string(answer), `"tool":"lib:`+name+`"`)
	}
}

// No request tells whether there is a profile that its client may not choose.
func TestUnknownProfile(t *testing.T) {
	p := newFakeProfiles(map[string]string{"work": "a", "@read": "a", "work|home": "a"}) // the last two can't be chosen by a path
	s, w := serveProfiles(t, p, HTTPOptions{})
	answer := func(method, path string, header ...string) string {
		response := w.do(method, path, "", header...)
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		response.Header.Del("Date")
		response.Header.Del("Content-Length") // of the path in the body
		said, _ := url.PathUnescape(path)     // as the body has it
		return fmt.Sprint(response.StatusCode, response.Header, strings.ReplaceAll(string(body), said, "PATH"))
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodOptions, http.MethodPut} {
		want := answer(method, "/mcp/p/nothing")
		if !strings.HasPrefix(want, "404") || !strings.Contains(want, "there is no such profile, or not for this client: PATH") {
			t.Fatalf("%s: %s", method, want)
		}
		for _, path := range []string{"/mcp/p/none", "/mcp/p/none/", "/mcp/p/none/tools/list", "/mcp/p/WORK", "/mcp/p/none/p/work", "/mcp/p/work+work", "/mcp/p/@read", "/mcp/p/%40read", "/mcp/p/%40read/tools/list", "/mcp/p/work|home", "/mcp/p/work%7Chome"} {
			for _, header := range [][]string{nil, {"Mcp-Session-Id", "x"}, {"Accept", "text/html"}, {"Mcp-Protocol-Version", "1"}} {
				expect.Equal(t, answer(method, path, header...), want, "%s %s with %q", method, path, header)
			}
		}
	}
	expect.Equal(t, len(s.all()), 1, "servers")
}

// A session is unknown to requests for another profile, and ends with its profile.
func TestSessionOfProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProfiles(map[string]string{"work": "a", "home": "b"})
		s, w := serveProfiles(t, p, HTTPOptions{})
		session := w.sessionAt("/mcp/p/work")
		ping := rpc("ping", "")
		try := func(when string, want map[string]int) {
			t.Helper()
			for path, want := range want {
				if got, body := w.text(http.MethodPost, path, ping, session...); got != want {
					t.Errorf("%s, %s: %d %s, want %d", when, path, got, body, want)
				}
			}
		}
		try("open", map[string]int{"/mcp/p/work": 200, "/mcp/p/home": 404, "/mcp": 404, "/mcp/p/none": 404})
		if all := s.Clients(); len(all) != 1 || all[0].Profile != "work" || all[0].Mode != exposure.Direct {
			t.Errorf("clients: %+v", all)
		}
		p.set("work", "")
		synctest.Wait()
		try("removed", map[string]int{"/mcp/p/work": 404})
		if all := s.all(); len(all) != 2 {
			t.Errorf("%d servers are left, want those of no profile and of home", len(all))
		}
		p.set("work", "a")
		synctest.Wait()
		try("back", map[string]int{"/mcp/p/work": 404})
	})
}

// A client over stdio stays if its profile is removed: no one could open it again.
func TestStdioOfRemovedProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProfiles(map[string]string{"work": "a"})
		s, _ := serveProfiles(t, p, HTTPOptions{})
		work, _ := s.of("work")
		in, input := io.Pipe()
		served := make(chan error, 1)
		go func() { served <- work.Serve(t.Context(), nil, in, io.Discard) }()
		synctest.Wait()
		p.set("work", "")
		synctest.Wait()
		if all := s.Clients(); len(s.all()) != 2 {
			t.Errorf("%d servers, clients %+v", len(s.all()), all)
		}
		input.Close()
		expect.OK(t, <-served)
		synctest.Wait()
		expect.Equal(t, len(s.all()), 1, "servers are left")
	})
}

// Messages that belong to no request go on only if no client of another profile can have
// caused them.
func TestMessagesOfServersStayInTheProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeProfiles(map[string]string{"work": "a", "home": "b"})
		s, w := serveProfiles(t, p, HTTPOptions{})
		work, _ := s.of("work")
		r := work.router.(*fakeRouter)
		session := w.sessionAt("/mcp/p/work")
		stream := reading(t, w.do(http.MethodGet, "/mcp/p/work", "", session...))
		defer stream.body.Close()
		say := func(text string) {
			(*r.hear.Load())("a", nil, sessionMessage(text))
			synctest.Wait()
		}
		synctest.Wait()
		say("one")
		other := w.sessionAt("/mcp/p/home")
		say("two")
		w.text(http.MethodDelete, "/mcp/p/home", "", other...)
		synctest.Wait()
		say("three")
		for _, want := range []string{"one", "three"} {
			if got, ok := stream.next(); !ok || !strings.Contains(got.data, want) {
				t.Errorf("%+v, want %s", got, want)
			}
		}
	})
}

func sessionMessage(text string) session.Message {
	return session.Message{Method: "notifications/message", Params: fmt.Appendf(nil, `{"level":"error","data":%q}`, text)}
}

// The profile of a token limits that of the URL: where both together allow no server, nothing is
// there.
func TestProfileOfToken(t *testing.T) {
	var tokens []clientauth.Principal
	for _, profile := range []string{"", "work", "gone"} {
		sum := sha256.Sum256([]byte(walkToken(profile)))
		tokens = append(tokens, clientauth.Principal{Hash: hex.EncodeToString(sum[:]), Name: "n", Profile: profile})
	}
	_, w := serveProfiles(t, newFakeProfiles(map[string]string{"work": "a", "home": "b", "more": "a"}), HTTPOptions{Tokens: tokens})
	for _, test := range []struct {
		path, profile string // of the URL and of the token
		status        int
		want          []string
	}{
		{"/mcp", "", 200, []string{"a__x", "b__y"}},
		{"/mcp", "work", 200, []string{"a__x"}},
		{"/mcp/p/work", "work", 200, []string{"a__x"}},
		{"/mcp/p/more", "work", 200, []string{"a__x"}},
		{"/mcp/p/home", "work", 404, nil},
		{"/mcp/p/home", "", 200, []string{"b__y"}},
		{"/mcp/p/gone", "", 404, nil},
		{"/mcp", "gone", 404, nil},
		{"/mcp/p/work", "gone", 404, nil},
		{"/mcp/p/work", "unknown", 401, nil},
		{"/mcp/p/gone", "unknown", 401, nil},
	} {
		status, body := w.text(http.MethodPost, test.path, rpc("tools/list", ""), "Authorization", "Bearer "+walkToken(test.profile))
		if got := toolNames(body); status != test.status || !slices.Equal(got, test.want) {
			t.Errorf("%s with a token of %q: %d %q, want %d %q", test.path, test.profile, status, got, test.status, test.want)
		}
	}
}

// Where all clients have a profile, one that allows nothing of it looks as one that does not exist.
func TestProfileOfAll(t *testing.T) {
	p := newFakeProfiles(map[string]string{"work": "a", "home": "b", "more": "a"}).profiles()
	p.Always = []string{"work"}
	s := NewServers(p)
	w := serveHandler(t, s.Handler(HTTPOptions{}), s.Run)
	for path, want := range map[string]int{"/mcp": 200, "/mcp/p/work": 200, "/mcp/p/more": 200, "/mcp/p/home": 404, "/mcp/p/gone": 404} {
		if status, body := w.text(http.MethodPost, path, rpc("tools/list", "")); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
}
