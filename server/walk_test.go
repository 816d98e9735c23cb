package server

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/server/internal/tools"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/play"
)

// The walk sends each request that there is, over each route, to a router whose profiles hide
// most of it, and to a router that has nothing else. No answer may have a word of what is hidden,
// and the answers of both must be the same.

// mark is in all that is hidden.
const mark = "zzmark"

// walked are the parameters to send, by method. A request with the mark in it guesses what is
// hidden: its answer may repeat the guess, and nothing else.
var walked = map[string][]string{
	"initialize":               {}, // each session begins with it
	"server/discover":          {``},
	"ping":                     {``},
	"logging/setLevel":         {`"level":"debug"`},
	"tools/list":               {``, `"cursor":"YWZ0ZXI6enptYXJr"`},
	"prompts/list":             {``},
	"resources/list":           {``},
	"resources/templates/list": {``},
	"skills/list":              {``},
	"skills/get":               {`"uri":"skill://zzmark/SKILL.md"`, `"uri":"metarouter://zzmark-server/skill://zzmark/SKILL.md"`, `"uri":"skill://unlisted/SKILL.md"`, `"uri":"doc://x"`},
	"prompts/get":              {`"name":"open__zzmark_prompt"`, `"name":"zzmark_prompt"`, `"name":"open:zzmark_promp"`, `"name":"prompt"`},
	"resources/read":           {`"uri":"doc://zzmark/a"`, `"uri":"doc://zzmark/t/1"`, `"uri":"metarouter://zzmark-server/doc://zzmark/b"`, `"uri":"doc://x"`, `"uri":"skill://zzmark/more.md"`, `"uri":"metarouter-result:x"`},
	"completion/complete":      {`"ref":{"type":"ref/prompt","name":"zzmark_prompt"},"argument":{"name":"x","value":"y"}`, `"ref":{"type":"ref/resource","uri":"doc://zzmark/t/{x}"},"argument":{"name":"x","value":"y"}`},
	"resources/subscribe":      {`"uri":"doc://zzmark/a"`, `"uri":"doc://zzmark/b"`, `"uri":"doc://x"`},
	"resources/unsubscribe":    {`"uri":"doc://zzmark/a"`},
	"subscriptions/listen":     {`"notifications":{"toolsListChanged":true,"resourceSubscriptions":["doc://zzmark/a","doc://x"]}`},
	"tasks/get":                {`"taskId":"zzmark-server:zzmark_x/1"`, `"taskId":"open:echo/1"`},
	"tasks/update":             {`"taskId":"zzmark-server:zzmark_x/1"`},
	"tasks/cancel":             {`"taskId":"zzmark-server:zzmark_x/1"`},
	"tools/call":               {`"name":"echo","arguments":{"message":"hi"}`, `"name":"open__zzmark_delete"`, `"name":"zzmark-server__zzmark_x"`, `"name":"zzmark_x"`, `"name":"zzmark-broken__x"`, `"name":"zzmark-off.x"`, `"name":"open__delete"`, `"name":"nothing"`},
}

// walkedOwn are the arguments of the router's own tools.
var walkedOwn = map[string][]string{
	"find_tools": {
		`{"query":"delete all of it"}`, `{"query":"zzmark secret things"}`, `{"query":"repeat the arguments as text","limit":50}`,
		`{"query":"anything","servers":["zzmark-server"]}`, `{"query":"anything","capabilities":["delete"]}`,
		`{"query":"secret prompt or resource","kinds":["tool","resource","prompt","skill"],"limit":50}`,
	},
	"describe_tools":      {`{"ids":["open:echo"]}`, `{"ids":["zzmark-server:zzmark_x","open:zzmark_delete","open:zzmark_prompt"]}`, `{"ids":["delete"]}`},
	"call_tool":           {`{"tool":"open:echo","arguments":{"message":"hi"}}`, `{"tool":"zzmark-server:zzmark_x"}`, `{"tool":"open:zzmark_delete"}`, `{"tool":"zzmark-broken:x"}`},
	"call_read_only_tool": {`{"tool":"open:echo","arguments":{"message":"hi"}}`, `{"tool":"zzmark-server:zzmark_x"}`},
	"route_task":          {`{"task":"delete all the things","allow_destructive":true,"run_anyway":true}`, `{"task":"zzmark secret things"}`, `{"task":"echo the message hello"}`},
	"read_result":         {`{"uri":"metarouter-result:x"}`},
	"list_categories":     {`{}`},
	"run_script":          {`{"code":"return 1"}`},
	"classify_text":       {`{"text":"delete the secret things","with_probabilities":true}`},
}

// params returns the parameters to send, by method: it fails if one has none.
func walkedParams(t *testing.T) map[string][]string {
	methods := slices.Sorted(maps.Keys((&Server{}).methods(&greeting{}, nil, nil)))
	if known := slices.Sorted(maps.Keys(walked)); !slices.Equal(methods, known) {
		t.Fatalf("the methods are\n%q, the walk knows\n%q", methods, known)
	}
	all := maps.Clone(walked)
	var own []string
	for _, tool := range tools.Own() {
		own = append(own, tool.Name)
		for _, args := range walkedOwn[tool.Name] {
			all["tools/call"] = append(slices.Clip(all["tools/call"]), `"name":"`+tool.Name+`","arguments":`+args)
		}
	}
	slices.Sort(own)
	if known := slices.Sorted(maps.Keys(walkedOwn)); !slices.Equal(own, known) {
		t.Fatalf("the router's own tools are\n%q, the walk knows\n%q", own, known)
	}
	return all
}

// walkServer returns the entry of a server with the flags of the fake one.
func walkServer(name string, flags ...string) config.Server {
	command, args := mcptest.Command(flags...)
	return config.Server{Name: name, Transport: config.Stdio, Command: command, Args: args, StartTimeout: 30 * time.Second}
}

var walkProfiles = map[string]config.Profile{
	"nothing": {Servers: []string{}},
	"one":     {Servers: []string{"open"}, Allow: []string{"echo"}},
	"pid":     {Servers: []string{"open"}, Allow: []string{"pid"}},
	"tools":   {Servers: []string{"open"}, Deny: []string{mark + "_p*", "doc:*"}},
}

// A walkRouter is a router that is served over HTTP.
type walkRouter struct {
	*web
	tokens  *web // the same router, for requests with tokens
	issued  *web // the same, for requests with tokens of an issuer
	servers *Servers
	router  *adapter.Router
	edits   chan<- config.Config
}

func runWalk(t *testing.T, mode string, c config.Config) *walkRouter {
	r := adapter.New(c, adapter.Options{Play: play.Server})
	edits := make(chan config.Config)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ran := make(chan error, 1)
	go func() { ran <- r.Run(ctx, edits) }()
	t.Cleanup(func() {
		cancel()
		<-ran
	})
	s := NewServers(Profiles{
		Open: func(_ View, chosen []string) (Router, Options) {
			return r.Scope(chosen...), Options{Mode: mode, Rules: chosen, Classifies: true, LimitsResults: true}
		},
		Exists:   func(chosen string) bool { return r.Scope(chosen).Exists() },
		Edited:   r.Edited,
		ReadOnly: "@read",
		Whole:    r,
	})
	r.Settled(t.Context())
	issuer := newFakeIssuer()
	tokens := []clientauth.Principal{{Name: "union", Profile: "gone|one|pid"}, {Name: "reader", Profile: "nothing|tools", Reads: true}}
	for profile := range walkProfiles {
		tokens = append(tokens, clientauth.Principal{Name: profile, Profile: profile})
		issuer.proofs[walkToken(profile)] = issuer.proof(profile, clientauth.Principal{Profile: profile}, "tools.call")
		issuer.proofs[walkToken("reading "+profile)] = issuer.proof(profile, clientauth.Principal{Profile: profile, Reads: true}, "tools.read")
	}
	for i, p := range tokens {
		sum := sha256.Sum256([]byte(walkToken(p.Name)))
		tokens[i].Hash = hex.EncodeToString(sum[:])
	}
	secured := serveHandler(t, s.Handler(HTTPOptions{Tokens: tokens}), func(ctx context.Context) error { <-ctx.Done(); return nil })
	issued := serveHandler(t, s.Handler(issuer.options()), func(ctx context.Context) error { <-ctx.Done(); return nil })
	return &walkRouter{serveHandler(t, s.Handler(HTTPOptions{}), s.Run), secured, issued, s, r, edits}
}

// walkToken returns the token of a principal.
func walkToken(name string) string { return "the token of <" + name + ">" }

// masked hides what differs between any two calls, and the scores of searches: words weigh as
// much as in the index, which is one for all profiles.
var masked = regexp.MustCompile(`\\?"([a-z_/.]*(took|latency|duration|time|since|_ms|trace|attempts)[a-zA-Z_]*|score|confidence)\\?":("[^"]*"|[0-9.e+-]+)|plain-[A-Z0-9]+`)

func mask(answer string) string { return masked.ReplaceAllString(answer, "") }

// A probe is a request of the walk.
type probe struct {
	name, method, path, body string
	header                   []string
}

// probes returns all requests at a path, without requests of sessions.
func probes(all map[string][]string, base string) (list []probe) {
	for _, method := range slices.Sorted(maps.Keys(all)) {
		for _, params := range append([]string{}, all[method]...) {
			modern := strings.Trim(params+","+modernMeta, ",")
			named := nameOf(method, params)
			list = append(list,
				probe{"modern", http.MethodPost, base, rpc(method, modern), modernHeaders(method, named)},
				probe{"plain", http.MethodPost, base, rpc(method, params), nil},
				probe{"batch", http.MethodPost, base, "[" + rpc(method, params) + "," + rpc("ping", "") + "]", nil},
				probe{"REST", http.MethodPost, base + "/" + method, "{" + params + "}", nil},
				probe{"REST with GET", http.MethodGet, base + "/" + method, "", nil},
			)
		}
	}
	for _, path := range []string{"/p", "/nothing", "/p/one", "/p/nothing", "/p/none", "/zzmark", "/v1/mesh_scan", "/health"} {
		list = append(list, probe{"path", http.MethodGet, base + path, "", nil}, probe{"path", http.MethodPost, base + path, "{}", nil})
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodOptions, http.MethodPut} {
		list = append(list, probe{"endpoint", method, base, "", nil}, probe{"endpoint, unknown session", method, base, "", []string{"Mcp-Session-Id", "x", "Accept", "text/event-stream"}})
	}
	return list
}

// withToken returns the requests of a client that has a token, with the requests of other routes.
func withToken(all map[string][]string, name string) []probe {
	list := probes(all, "/mcp")
	for _, path := range []string{"/health", "/v1/mesh_scan", "/", "/metrics", "/dashboard/events", "/login"} {
		list = append(list, probe{"route", http.MethodGet, path, "", nil}, probe{"route", http.MethodPost, path, "{}", nil})
	}
	for i := range list {
		list[i].name = "token, " + list[i].name
		list[i].header = append(slices.Clip(list[i].header), "Authorization", "Bearer "+walkToken(name))
	}
	return list
}

// nameOf returns the value of the header that repeats a name.
func nameOf(method, params string) string {
	var p struct{ Name, URI, TaskID string }
	_ = json.Unmarshal([]byte("{"+params+"}"), &p)
	return cmp.Or(p.Name, p.URI, p.TaskID)
}

// ask returns the answer to a probe: of a stream, the first event.
func (w *web) ask(p probe) string {
	response := w.do(p.method, p.path, p.body, p.header...)
	defer response.Body.Close()
	var body []byte
	if response.Header.Get("Content-Type") == "text/event-stream" { // so a slow answer may come, after an event without data
		events := reading(w.t, response)
		for len(body) == 0 {
			s, ok := events.next()
			if !ok {
				break
			}
			body = []byte(s.data)
		}
		response.Header = http.Header{"Content-Type": {"application/json"}, "X-Content-Type-Options": {"nosniff"}}
	} else {
		body, _ = io.ReadAll(response.Body)
	}
	response.Header.Del("Date")
	response.Header.Del("Content-Length")
	response.Header.Del("Mcp-Session-Id")
	return fmt.Sprint(response.StatusCode, " ", response.Header, " ", strings.TrimSpace(string(body)))
}

// inSession returns the answers to all requests in a session of the legacy era.
func (w *walkRouter) inSession(all map[string][]string, profile string) map[string]string {
	answers := make(map[string]string)
	base := "/mcp/p/" + profile
	answers["initialize"] = w.ask(probe{"", http.MethodPost, base, initializing, both})
	session := w.sessionAt(base)
	for method, list := range all {
		for _, params := range list {
			body := rpc(method, params)
			answers[body] = w.ask(probe{"", http.MethodPost, base, body, session})
		}
	}
	return answers
}

// stdio serves a client over pipes. end cancels what it listens to, and returns what is left to read.
func (w *walkRouter) stdio(chosen ...string) (say func(line string), next, end func() string) {
	w.t.Helper()
	server, ok := w.servers.of(chosen...)
	if !ok {
		w.t.Fatalf("%q do not exist", chosen)
	}
	in, input := io.Pipe()
	output, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := server.Serve(w.t.Context(), nil, in, out)
		out.Close()
		served <- err
	}()
	lines := bufio.NewReader(output)
	say = func(line string) { io.WriteString(input, line+"\n") }
	next = func() string {
		line, _ := lines.ReadString('\n')
		return line
	}
	end = func() string {
		say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"listen"}}`)
		input.Close()
		rest, _ := io.ReadAll(lines)
		if err := <-served; err != nil {
			w.t.Error(err)
		}
		return string(rest)
	}
	return say, next, end
}

// overStdio returns the answers to all requests of both eras over stdio.
func (w *walkRouter) overStdio(all map[string][]string, chosen ...string) map[string]string {
	w.t.Helper()
	say, next, end := w.stdio(chosen...)
	ask := func(line string) string { say(line); return next() }
	answers := map[string]string{"initialize": ask(initializing)}
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for _, method := range slices.Sorted(maps.Keys(all)) {
		for _, params := range all[method] {
			for _, body := range []string{rpc(method, params), rpc(method, strings.Trim(params+","+modernMeta, ","))} {
				if method == "subscriptions/listen" { // which is answered at the end
					body = strings.Replace(body, `"id":1`, `"id":"listen"`, 1)
				}
				answers[body] = ask(body)
			}
		}
	}
	answers["the rest"] = end()
	return answers
}

func TestWalk(t *testing.T) {
	all := walkedParams(t)
	open := walkServer("open", "-tools", "echo", "-tool", "zzmark_delete: Deletes zzmark things", "-prompts", "zzmark_prompt",
		"-resources", "doc://zzmark/a", "-templates", "doc://zzmark/t/{x}", "-complete", "-logging")
	hidden := []config.Server{
		walkServer("zzmark-server", "-tools", "zzmark_x,echo,delete_all,touch,log", "-prompts", "zzmark_prompt,zzmark_other", "-resources", "doc://zzmark/b,doc://x", "-templates", "doc://zzmark/t/{x}", "-skills", "zzmark", "-logging"),
		{Name: "zzmark-broken", Transport: config.Stdio, Command: "/zzmark/no/such/command"},
		{Name: "zzmark-off", Transport: config.Stdio, Command: "true", Disabled: true},
	}
	configOf := func(servers ...config.Server) config.Config {
		return config.Config{Servers: servers, Router: config.Router{Profiles: walkProfiles}}
	}
	full := runWalk(t, exposure.Search, configOf(append(hidden, open)...))
	bare := map[string]*walkRouter{
		"nothing": runWalk(t, exposure.Search, configOf()),
		"one":     runWalk(t, exposure.Search, configOf(walkServer("open", "-tools", "echo", "-complete", "-logging"))),
	}
	if !strings.Contains(full.ask(probe{"", http.MethodPost, "/mcp", rpc("tools/call", `"name":"find_tools","arguments":{"query":"zzmark","kinds":["tool","prompt","resource"]}`), nil}), mark) {
		t.Fatal("what is to be hidden is not there")
	}
	if got := full.ask(probe{"", http.MethodPost, "/mcp/p/one", rpc("tools/call", `"name":"echo","arguments":{"message":"hi"}`), nil}); !strings.Contains(got, "hi") {
		t.Fatalf("the allowed tool is not called: %s", got)
	}
	if got := full.issued.ask(probe{"", http.MethodPost, "/mcp", rpc("tools/call", `"name":"echo","arguments":{"message":"hi"}`), bearer(walkToken("one"))}); !strings.Contains(got, "hi") {
		t.Fatalf("the issuer's token is not let in: %s", got)
	}
	compare := func(profile, route, request, got, want string) {
		t.Helper()
		compareWalks(t, profile+", "+route+": "+request, got, want)
	}
	for profile, only := range bare {
		for _, p := range probes(all, "/mcp/p/"+profile) {
			compare(profile, p.name, p.method+" "+p.path+" "+p.body, full.ask(p), only.ask(p))
		}
		for _, p := range withToken(all, profile) {
			compare(profile, p.name, p.method+" "+p.path+" "+p.body, full.tokens.ask(p), only.tokens.ask(p))
		}
		for _, holder := range []string{profile, "reading " + profile} {
			for _, p := range withToken(all, holder) {
				if strings.HasSuffix(p.name, "batch") || strings.Contains(p.name, "REST") {
					continue // how a client is let in makes no difference to these
				}
				compare(holder, "issuer, "+p.name, p.method+" "+p.path+" "+p.body, full.issued.ask(p), only.issued.ask(p))
			}
		}
		want := only.inSession(all, profile)
		for request, got := range full.inSession(all, profile) {
			compare(profile, "session", request, got, want[request])
		}
		want = only.overStdio(all, profile)
		for request, got := range full.overStdio(all, profile) {
			compare(profile, "stdio", request, got, want[request])
		}
	}
}

// compareWalks compares the answers to a request with and without what is hidden.
func compareWalks(t *testing.T, request, got, want string) {
	t.Helper()
	if !strings.Contains(request, mark) && strings.Contains(got, mark) {
		t.Errorf("%s tells what is hidden: %s", request, got)
	} else if mask(got) != mask(want) {
		t.Errorf("%s tells the routers apart:\n%s\nwithout what is hidden:\n%s", request, mask(got), mask(want))
	}
}

// What a hidden server says, and that it or its lists change, never reaches a client of a profile
// that hides it; nor does what a visible server says of hidden things that it has.
func TestWalkOfNotifications(t *testing.T) {
	open := walkServer("open", "-tools", "echo,grow,touch,log", "-resources", "doc://zzmark/a", "-logging")
	hidden := walkServer("zzmark-server", "-tools", "grow,grow_prompts,grow_resources,shrink,touch,log", "-resources", "doc://zzmark/b", "-logging")
	c := config.Config{Servers: []config.Server{open, hidden}, Router: config.Router{Profiles: walkProfiles}}
	w := runWalk(t, exposure.Direct, c)
	say, next, end := w.stdio("one")
	say(initializing)
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say(rpc("logging/setLevel", `"level":"debug"`))
	say(strings.Replace(rpc("subscriptions/listen", `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["doc://zzmark/a","doc://zzmark/b"]},`+modernMeta), `"id":1`, `"id":"listen"`, 1))
	for range 3 { // the answers to initialize and setLevel, and what was subscribed to
		if line := next(); line == "" || strings.Contains(line, mark) {
			t.Fatal(line)
		}
	}
	// A client of no profile causes changes and messages.
	w.session()
	for _, call := range []string{
		`"name":"zzmark-server__grow"`, `"name":"zzmark-server__grow_prompts"`, `"name":"zzmark-server__grow_resources"`, `"name":"zzmark-server__shrink"`,
		`"name":"zzmark-server__touch","arguments":{"uri":"doc://zzmark/b"}`, `"name":"zzmark-server__log","arguments":{"level":"error","n":2}`,
		`"name":"open__grow"`, `"name":"open__touch","arguments":{"uri":"doc://zzmark/a"}`, `"name":"open__log","arguments":{"level":"error","n":2}`,
	} {
		if got := w.ask(probe{"", http.MethodPost, "/mcp", rpc("tools/call", call), nil}); strings.Contains(got, `"error"`) {
			t.Fatalf("%s: %s", call, got)
		}
	}
	// An edit allows one tool more, and removes the hidden server: only the first is a change.
	c.Servers = []config.Server{open}
	c.Router.Profiles = map[string]config.Profile{"one": {Servers: []string{"open"}, Allow: []string{"echo", "touch"}}}
	w.edits <- c
	for range 2 { // to the session, and to the request that listens
		if line := next(); !strings.HasPrefix(line, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"`) {
			t.Errorf("the client got %s", line)
		}
	}
	say(rpc("ping", ""))
	if line := next(); !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":1,"result":{}`) {
		t.Errorf("before the answer to ping the client got %s", line)
	}
	end()
}
