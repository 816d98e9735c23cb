//go:build linux

package hostile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// servers returns all kinds of hostile servers.
func servers() map[string]kind {
	all := map[string]kind{}
	for _, some := range []map[string]kind{schemas, lists, names, floods, answers, questions, handshakes, processes, sites} {
		for name, k := range some {
			if _, twice := all[name]; twice {
				panic("two kinds are named " + name)
			}
			all[name] = k
		}
	}
	return all
}

func TestServers(t *testing.T) {
	t.Parallel()
	for name, kind := range servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attackWith(t, name, kind)
		})
	}
}

// An attack is a run of one hostile server.
type attack struct {
	*router
	kind    kind
	began   time.Time
	client  *mcptest.HTTPClient // calls the hostile server
	load    *honest
	answers []string // errors that name the hostile server, distinct
	last    string   // the last answer

	calls, failed int // of the hostile server

	mu    sync.Mutex // guards asked
	asked map[string]int
}

func attackWith(t *testing.T, name string, k kind) {
	r := start(t, map[string]any{"listWait": "2s", "mode": "direct"})
	a := &attack{router: r, kind: k, began: time.Now(), load: r.honestLoad(), asked: map[string]int{}}
	a.connect()
	a.load.begin()
	before := r.settle()

	e := map[string]any{"timeout": "1s", "startTimeout": "3s"}
	switch {
	case k.play != nil:
		maps.Copy(e, entry(name, r.pids()))
	default:
		e["url"] = newSite(t, k.serve).url
		e["type"] = "http"
	}
	maps.Copy(e, k.entry)
	r.configure(e)
	a.await()
	a.run()
	a.named()
	if k.check != nil {
		k.check(a)
	}
	r.configure(nil)
	a.client.Close()
	r.compare(before)
	a.load.one("after the attack")
	r.end()
}

// connect opens the session that calls the hostile server.
func (a *attack) connect() {
	if !a.kind.asks {
		a.client = a.router.client(`{}`)
		return
	}
	a.client = mcptest.NewHTTPClient(a.t, a.url())
	a.client.Declare(`{"sampling":{},"elicitation":{},"roots":{}}`)
	a.client.OnRequest(func(method string, _ json.RawMessage) (json.RawMessage, *mcptest.Error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked[method]++
		switch method {
		case "elicitation/create":
			return json.RawMessage(`{"action":"decline"}`), nil
		case "roots/list":
			return json.RawMessage(`{"roots":[]}`), nil
		case "ping":
			return json.RawMessage(`{}`), nil
		}
		return nil, &mcptest.Error{Code: -1, Message: "User rejected sampling request"}
	})
	if _, err := a.client.Initialize(within(a.t, patience)); err != nil {
		a.t.Fatalf("initialize: %v\n%s", err, a.log())
	}
}

// run calls both servers for the time of a case.
func (a *attack) run() {
	d := lasts(a.t, 300*time.Millisecond)
	if a.kind.slow {
		d *= 4
	}
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { a.load.work(ctx) })
	all.Go(func() {
		late := time.Now().Add(patience)
		for first := true; (first || ctx.Err() == nil || a.calls < a.kind.calls && time.Now().Before(late)) && !a.t.Failed(); first = false {
			a.call(d)
		}
	})
	all.Wait()
	if _, err := a.client.Request(within(a.t, deadline), "tools/list", json.RawMessage(`{}`)); err != nil {
		a.t.Errorf("list tools: %v", err)
	}
}

const (
	// grace is how long a call of a hostile server may last after the end of the attack: its
	// timeout is a second.
	grace = 30 * time.Second
	// startDeadline is how long a call may wait for a server that does not become ready. A short
	// attack does not wait for that.
	startDeadline = time.Minute
)

// call calls the hostile server. Any answer will do, but one has to come, and it must be a
// message that any reader understands.
func (a *attack) call(d time.Duration) {
	arguments := `{}`
	if a.kind.args != nil {
		arguments = a.kind.args()
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(d+grace, startDeadline))
	defer cancel()
	if d+grace < startDeadline {
		defer time.AfterFunc(d+time.Second, func() {
			if !a.ready() {
				cancel()
			}
		}).Stop()
	}
	result, err := a.client.Call(ctx, "hostile:attack", json.RawMessage(arguments))
	if errors.Is(err, context.Canceled) {
		return
	}
	answer := string(result)
	if failed, ok := errors.AsType[*mcptest.Error](err); ok {
		answer = string(failed.Object)
	} else if err != nil {
		a.t.Errorf("a call of the hostile server: %v", err)
		return
	}
	a.last = clip(answer, longest)
	said, isError := textOf(result)
	a.calls++
	if isError {
		a.failed++
		a.note(cmp.Or(said, answer))
	}
	if why := unsound(answer); why != "" {
		a.t.Errorf("an answer of the hostile server came through: %s: %.300q", why, answer)
	}
	time.Sleep(time.Millisecond)
}

// longest bounds the bytes that are kept of the last answer.
const longest = 2000

// note notes an error that names the hostile server.
func (a *attack) note(said string) {
	said = clip(said, 300)
	if strings.Contains(said, "hostile") && !strings.Contains(said, "unknown tool") && len(a.answers) < 10 && !slices.Contains(a.answers, said) {
		a.answers = append(a.answers, said)
	}
}

// await waits until the first try to start the hostile server is over.
func (a *attack) await() {
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if state := a.state(); state != "" && state != "starting" {
			return
		}
	}
	a.t.Error("the hostile server is still starting")
}

func (a *attack) ready() bool { return a.state() == "ready" }

// state returns the state of the hostile server.
func (a *attack) state() (state string) {
	a.metrics(func(line string) {
		if rest, ok := strings.CutPrefix(line, `metarouter_server_state{server="hostile",state="`); ok && strings.HasSuffix(rest, `"} 1`) {
			state = strings.TrimSuffix(rest, `"} 1`)
		}
	})
	return state
}

// unsound says why a strict reader would refuse a message, or "".
func unsound(m string) string {
	switch {
	case !utf8.ValidString(m):
		return "it is not UTF-8"
	case hasLoneSurrogate(m):
		return "it has a lone surrogate"
	case depth(m) > 105: // 100 in the result
		return fmt.Sprintf("it is nested %d levels deep", depth(m))
	}
	return ""
}

// depth returns how deep JSON is nested.
func depth(m string) (deepest int) {
	now := 0
	for tokens := json.NewDecoder(strings.NewReader(m)); ; {
		switch token, err := tokens.Token(); {
		case err != nil:
			return deepest
		case token == json.Delim('{') || token == json.Delim('['):
			now++
			deepest = max(deepest, now)
		case token == json.Delim('}') || token == json.Delim(']'):
			now--
		}
	}
}

// hasLoneSurrogate reports whether JSON has half of an escaped pair: a decoder replaces it by U+FFFD.
func hasLoneSurrogate(m string) bool {
	var v any
	json.Unmarshal([]byte(m), &v)
	replaced := 0
	walk(v, func(s string) { replaced += strings.Count(s, "\ufffd") })
	return replaced > strings.Count(m, "\ufffd")+strings.Count(strings.ToLower(m), `\ufffd`)
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

// named checks that the fault is named: the doctor, an error that answers a call, or the log has
// one of the texts of the kind.
func (a *attack) named() {
	a.t.Helper()
	if len(a.kind.named) == 0 {
		return
	}
	var seen string
	for until := time.Now().Add(patience); time.Now().Before(until) && !a.t.Failed(); time.Sleep(300 * time.Millisecond) {
		seen = a.evidence()
		for _, want := range a.kind.named {
			if strings.Contains(seen, want) {
				a.t.Logf("named %q in\n%s", want, clip(seen, 3000))
				return
			}
		}
		if a.calls == 0 { // its first start failed, as on a busy machine: only a call starts it again
			a.call(300 * time.Millisecond)
		}
	}
	a.t.Errorf("the fault is not named: none of %q in\n%s\nThe server is %s; the last of %d answers is %s",
		a.kind.named, clip(seen, 8000), a.state(), a.calls, a.last)
}

// evidence is all that says what is wrong with the hostile server.
func (a *attack) evidence() string {
	var b strings.Builder
	out, _ := a.command("doctor", "--json")
	var report struct {
		Findings []struct{ Server, Problem string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		a.t.Errorf("doctor: %v: %.2000s", err, out)
	}
	for _, f := range report.Findings {
		if f.Server == "honest" && !strings.HasPrefix(f.Problem, "it took ") { // on a busy machine it takes long
			a.t.Errorf("doctor blames the honest server: %s", f.Problem)
		}
		if f.Server == "hostile" {
			fmt.Fprintln(&b, "doctor:", f.Problem)
		}
	}
	for _, answer := range a.answers {
		fmt.Fprintln(&b, "answer:", answer)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(clip(a.process.Stderr(), 1<<20)) {
		_, line, _ = strings.Cut(line, "\t") // without the time
		about := strings.Contains(line, `{"server": "hostile"`) || strings.Contains(line, `"hostile:`)
		if line = clip(strings.TrimSpace(line), 400); about && (!strings.HasPrefix(line, "INFO") || strings.Contains(line, "changed")) && !seen[line] && len(seen) < 10 {
			seen[line] = true
			fmt.Fprintln(&b, "log:", line)
		}
	}
	return b.String()
}
