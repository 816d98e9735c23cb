package launch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestFetchOf(t *testing.T) {
	for command, want := range map[string]string{
		"npx -y pkg":                     "npx: pkg",
		"npx pkg@1.2.3 --flag -p x":      "npx: pkg@1.2.3",
		"/usr/bin/npx -y -- @a/b@latest": "npx: @a/b@latest",
		"npx.cmd --yes @a/b@^1.0.0":      "npx: @a/b@^1.0.0",
		"npx -y -p a -p @b/c cmd x":      "npx: a @b/c",
		"npx --package=a@1.x cmd":        "npx: a@1.x",
		"npx --prefer-offline a":         "npx: a",
		"npm exec --yes a -- --b":        "npm: a",
		"npm x a":                        "npm: a",
		"uvx mcp-server-time --tz UTC":   "uvx: mcp-server-time",
		"uvx --from a[b]==1 c":           "uvx: a[b]==1",
		"uvx --python 3.12 c d":          "uvx: c",
		"uv tool run c":                  "uv: c",

		"npm run x":                    "",
		"npx":                          "",
		"npx -y":                       "",
		"npx -p":                       "",
		"npx -p a":                     "",
		"npx -c a":                     "",
		"npx --workspace w a":          "",
		"npx --yes=false a":            "",
		"npx -y ./folder":              "",
		"npx -y ../folder":             "",
		"npx -y /folder":               "",
		"npx -y user/repository":       "",
		"npx -y git+ssh://host/a.git":  "",
		"npx -y https://host/a.tgz":    "",
		"npx -y github:a/b":            "",
		"npx -y a@npm:b":               "",
		"npx -y a.tgz@file:x":          "",
		"uv run x":                     "",
		"docker run -i --rm image npx": "",
		"node npx.js":                  "",
	} {
		words := strings.Fields(command)
		f, ok := fetchOf(config.Server{Transport: config.Stdio, Command: words[0], Args: words[1:]})
		got := ""
		if ok {
			got = f.use.By + ": " + strings.Join(f.packages, " ")
		}
		expect.Equal(t, got, want, "%s", command)
	}
	if _, ok := fetchOf(config.Server{Transport: config.StreamableHTTP}); ok {
		t.Error("a remote server fetches nothing")
	}
}

// The folder is the one that npm 11 makes.
func TestNPXFolder(t *testing.T) {
	expect.Equal(t, npxFolder([]string{"@modelcontextprotocol/server-memory@2026.8.31"}), "c98ccc168155bafa")
}

func TestWords(t *testing.T) {
	for command, want := range map[string][]string{
		`'mcp-server' 'a b' 'it'\''s' '' '{"x":1}' '$HOME' plain`: {"mcp-server", "a b", "it's", "", `{"x":1}`, "$HOME", "plain"},
		`"server"  --a=b é`: {"server", "--a=b", "é"},
		`'a'"b"c`:           {"abc"},
		``:                  nil,
		`a; b`:              nil,
		`a $HOME`:           nil,
		`a "$HOME"`:         nil,
		`a 'b`:              nil,
		"a `b`":             nil,
		`a *.js`:            nil,
		`~/a`:               nil,
		`a {b,c}`:           nil,
		"a\nb":              nil,
		"a \\\nb":           nil,
		`a > b`:             nil,
	} {
		got, ok := words(command)
		if ok != (want != nil) || ok && !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", command, got, ok, want)
		}
	}
}

// unfetched returns a start whose package is in no cache.
func unfetched(name string) Job {
	return Job{
		Entry: config.Server{
			Transport: config.Stdio, Command: "npx", Args: []string{"-y", name}, StartTimeout: 3 * time.Minute,
			Env: map[string]string{"npm_config_cache": "/no/such/folder"},
		},
		Doing: func(string) {}, Hide: func(text string) string { return text },
	}
}

// The package of a server that someone waits for is fetched past the line.
func TestTurnOfAWantedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(nil, "", "")
		l.fetching = signal.NewTurns(1, 1)
		order := make(chan string, 4)
		fetch := func(name string, wanted <-chan struct{}) {
			job := unfetched(name)
			job.Wanted = wanted
			if done, err := l.AwaitTurn(t.Context(), job); err == nil {
				order <- name
				time.Sleep(time.Second)
				done()
			}
		}
		wanted := make(chan struct{})
		for _, name := range []string{"a", "b", "c"} {
			go fetch(name, nil)
			synctest.Wait()
		}
		go fetch("d", wanted)
		synctest.Wait()
		close(wanted)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		expect.Equal(t, <-order+<-order+<-order+<-order, "adbc", "fetched in the order")
	})
}

// A turn that is not given back ends after a third of its entry's startTimeout.
func TestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(nil, "", "")
		l.fetching = signal.NewTurns(1, 0)
		var waited []string
		turn := func(name string) func() {
			job := unfetched(name)
			job.Doing = func(what string) { waited = append(waited, what) }
			done, err := l.AwaitTurn(t.Context(), job)
			expect.OK(t, err)
			return done
		}
		began := time.Now()
		turn("hung")
		done := turn("a")
		expect.Equal(t, time.Since(began), time.Minute, "the second waited for")
		done()
		turn("b")()
		expect.Equal(t, time.Since(began), time.Minute, "the third waited until")
		if len(waited) != 1 || waited[0] != "waiting to be fetched" {
			t.Errorf("they did %q", waited)
		}
	})
}

// What npx or uvx has in its cache it only looks up.
func TestFetchOfCached(t *testing.T) {
	cache := t.TempDir()
	entry := config.Server{Transport: config.Stdio, Command: "npx", Args: []string{"-y", "@o/pkg@latest"}, Env: map[string]string{"npm_config_cache": cache}}
	f, _ := fetchOf(entry)
	if got := f.String(); got != "npx is fetching @o/pkg@latest" || f.cached != nil {
		t.Errorf("got %s, %q", got, f.cached)
	}
	folder := filepath.Join(cache, "_npx", npxFolder([]string{"@o/pkg@latest"}), "node_modules", "@o", "pkg")
	expect.OK(t, os.MkdirAll(folder, 0o700))
	expect.OK(t, os.WriteFile(filepath.Join(folder, "package.json"), []byte(`{"name": "@o/pkg", "version": "1.2.3"}`), 0o600))
	f, _ = fetchOf(entry)
	if got := f.String(); got != "npx is looking up @o/pkg@latest" || !slices.Equal(f.cached, []string{"@o/pkg@1.2.3"}) {
		t.Errorf("got %s, %q", got, f.cached)
	}
	folder = filepath.Join(cache, "wheels-v8", "pypi", "mcp-server-time")
	expect.OK(t, os.MkdirAll(folder, 0o700))
	expect.OK(t, os.WriteFile(filepath.Join(folder, "1.2-py3-none-any.http"), nil, 0o600))
	for spec, want := range map[string]string{"MCP_server.time": "looking up", "mcp-server-time==1.2": "looking up", "mcp-server-time==1.3": "fetching", "mcp": "fetching"} {
		f, _ := fetchOf(config.Server{Transport: config.Stdio, Command: "uvx", Args: []string{spec}, Env: map[string]string{"UV_CACHE_DIR": cache}})
		expect.Equal(t, f.String(), "uvx is "+want+" "+spec)
	}
}

// Servers ask for the roots when a session begins, so an edit of "roots" begins another.
func TestRootsAreOfTheProcess(t *testing.T) {
	entry := func(roots []string) config.Server {
		return config.Server{Transport: config.Stdio, Command: "a", Roots: roots}
	}
	for _, edited := range [][]string{nil, {}, {"/b"}} {
		if SameProcess(entry([]string{"/a"}), entry(edited)) || edited != nil && SameProcess(entry(nil), entry(edited)) {
			t.Errorf("the same process as with %q", edited)
		}
	}
	if !SameProcess(entry([]string{"/a"}), entry([]string{"/a"})) {
		t.Error("equal entries differ")
	}
}

// An edit of "oauth" concerns the connection, whatever was edited.
func TestOAuthIsOfTheConnection(t *testing.T) {
	entry := func(o *config.OAuth) config.Server {
		return config.Server{Transport: config.StreamableHTTP, URL: "https://a.example", OAuth: o}
	}
	for _, o := range []*config.OAuth{nil, {ClientID: "b"}, {ClientID: "a", ClientSecret: "s"}, {ClientID: "a", Scopes: []string{"x"}}, {ClientID: "a", NoResource: true}} {
		if SameProcess(entry(&config.OAuth{ClientID: "a"}), entry(o)) {
			t.Errorf("the same as %+v", o)
		}
	}
	if !SameProcess(entry(&config.OAuth{ClientID: "a", Scopes: []string{"x"}}), entry(&config.OAuth{ClientID: "a", Scopes: []string{"x"}})) {
		t.Error("equal entries differ")
	}
	if entry(&config.OAuth{PrivateKey: "a"}).SameSecrets(entry(&config.OAuth{PrivateKey: "b"})) {
		t.Error("an edited key is the same secret")
	}
}

// A later session of an entry with a secret in its arguments has the secret as it is then.
func TestStartWithAnotherSecret(t *testing.T) {
	self, err := os.Executable()
	expect.OK(t, err)
	ending := make(chan struct{})
	defer close(ending)
	starter := process.NewStarter(nil, ending, zap.NewNop())
	var started process.Command
	ended := func() (int, string) { return 0, "" }
	starter.Play = func(c process.Command) *process.Played {
		started = c
		return &process.Played{PID: 1, Wait: ended}
	}
	entry := config.Server{Transport: config.Stdio, Command: self, Args: []string{"${keyring:A}"}}
	old, next := entry, entry
	old.Args, next.Args = []string{"old"}, []string{"next"}
	d := &Direct{entry: entry, args: old.Args, plan: &plan{Path: self, Args: []string{"planned", "old"}}}
	for resolved, want := range map[*config.Server]string{&old: "planned old", &next: "next"} {
		_, err := New(starter, "", "").Start(entry, *resolved, d)
		expect.OK(t, err)
		expect.Equal(t, strings.Join(started.Args, " "), want, "the arguments with %s", resolved.Args)
	}
}
