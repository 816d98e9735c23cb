//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// approveOne has a call that needs approval between two that don't. Its tool and how long it takes, in milliseconds, are missing.
const approveOne = `const a = await call("s:ledger_read", {id: "before"});
const b = await call("s:%s", {id: "middle", ms: %d});
return [a, b, await call("s:ledger_read", {id: "after"})].join();`

// A script that waits for a person survives its router.
func TestScriptSurvivesItsRouter(t *testing.T) {
	t.Parallel()
	code := fmt.Sprintf(approveOne, "ledger_charge", 0)
	for _, transport := range []string{"http", "stdio"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			s, c, restart := newRestarting(t, transport, nil)
			a := suspended(t, c, code, 1)
			restart(syscall.SIGKILL)
			for i := range 2 { // also again, after the end
				if i > 0 {
					restart(syscall.SIGTERM) // no third time: the client may then serve itself
				}
				runScript(t, c, code, a.answers("accept")).gives(t, "before,middle,after")
				s.executed("before", "middle", "after")
			}
		})
	}
}

// An approved call that was under way when the router ended is made again only if its tool says that this does no
// harm. Otherwise the script ends, and says which calls took effect.
func TestScriptWithCallUnderWay(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	for _, test := range []struct {
		transport string
		signal    syscall.Signal // at SIGTERM, a router waits for requests over HTTP
		tool      string
		ms        int
	}{
		{"http", syscall.SIGKILL, "ledger_charge", 60_000},
		{"http", syscall.SIGKILL, "ledger_put", 15_000},
		{"stdio", syscall.SIGKILL, "ledger_charge", 60_000},
		{"stdio", syscall.SIGKILL, "ledger_put", 15_000},
		{"stdio", syscall.SIGTERM, "ledger_charge", 60_000},
	} {
		t.Run(fmt.Sprint(test.transport, " ", test.tool, " ", test.signal), func(t *testing.T) {
			t.Parallel()
			code := fmt.Sprintf(approveOne, test.tool, test.ms)
			s, c, restart := newRestarting(t, test.transport, nil)
			a := suspended(t, c, code, 1)
			var last scriptAnswer
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				last, err = tryScript(within(t), c, code, a.answers("accept"))
			}()
			mcptest.WaitFor(t, "the approved call", func() bool { return s.executions()["middle"] == 1 })
			restart(test.signal)
			<-done
			if test.transport == "http" {
				if err == nil {
					t.Errorf("the router answered before it was killed: %s", last.raw)
				}
				last, err = tryScript(within(t), c, code, a.answers("accept"))
			}
			if test.signal == syscall.SIGTERM && err != nil { // a router that is stopped may still answer that it ends
				if !strings.Contains(err.Error(), "whether it was carried out is not known") {
					t.Error(err)
				}
				last, err = tryScript(within(t), c, code, a.answers("accept"))
			}
			if err != nil {
				t.Fatal(err)
			}
			if test.tool == "ledger_put" {
				last.gives(t, "before,middle,after")
				if got := s.executions(); !maps.Equal(got, map[string]int{"before": 1, "middle": 2, "after": 1}) {
					t.Errorf("executions %v", got)
				}
				return
			}
			last.fails(t, "LostError", "its effect is unknown", "line 2", "These calls took effect:\nline 1: s:ledger_read")
			runScript(t, c, code, a.answers("accept")).fails(t, "LostError")
			s.executed("before", "middle")
		})
	}
}

// newRestarting returns a router with a modern client, and a function that ends the router by a signal and lets another one go on.
func newRestarting(t *testing.T, transport string, own map[string]any) (*scripting, mcptest.Requester, func(syscall.Signal)) {
	t.Helper()
	return newScripting(t, own).restarting(transport)
}

func (s *scripting) restarting(transport string) (*scripting, mcptest.Requester, func(syscall.Signal)) {
	s.t.Helper()
	if transport == "stdio" {
		return s, s.overStdio(), s.kill
	}
	address := mcptest.FreeAddress(s.t)
	router := s.serveAt(address)
	return s, s.overHTTP("http://" + address + "/mcp"), func(signal syscall.Signal) {
		router.Cmd.Process.Signal(signal)
		<-router.Done
		router = s.serveAt(address)
	}
}

// An answer is for one call, although the next one asks the same: sent again to the next router, it approves nothing else.
func TestScriptAsksTheSameAgain(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	const code = `for (const i of [1, 2]) await call("s:ledger_charge", {id: "same"}); return "done"`
	s, c, restart := newRestarting(t, "http", nil)
	first := suspended(t, c, code, 1)
	second := runScript(t, c, code, first.answers("accept"))
	for range 2 { // in the same router, and in the next
		if a := runScript(t, c, code, first.answers("accept")); len(a.InputRequests) != 1 || !maps.Equal(a.InputRequests, second.InputRequests) {
			t.Errorf("the first answer again: %s, want %s", a.raw, second.raw)
		}
		s.executed("same")
		restart(syscall.SIGKILL)
	}
	runScript(t, c, code, second.answers("accept")).gives(t, "done")
	if n := s.executions()["same"]; n != 2 {
		t.Errorf("%d executions", n)
	}
}

// A script that was not suspended runs again in the next router, but a call that may have been made is not made again
// if it does harm: the script ends.
func TestScriptIsSentAgain(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := newScripting(t, map[string]any{"profiles": map[string]any{}})
	legacy := s.serve()
	for era, c := range map[string]mcptest.Requester{"legacy": legacy, "modern": s.overStdio()} {
		code := strings.ReplaceAll(fmt.Sprintf(strings.Replace(approveOne, "b = await call", "b = await callSafe", 1), "ledger_charge", 60_000), `id: "`, `id: "`+era)
		done := make(chan struct{})
		var a scriptAnswer
		var err error
		go func() {
			defer close(done)
			a, err = tryScript(within(t), c, code, nil)
		}()
		mcptest.WaitFor(t, "the call", func() bool { return s.executions()[era+"middle"] == 1 })
		s.kill(syscall.SIGKILL)
		<-done
		if err != nil {
			t.Fatal(err)
		}
		a.fails(t, "LostError", "its effect is unknown", "These calls took effect:\nline 1: s:ledger_read")
		if got := s.executions(); got[era+"middle"] != 1 || got[era+"after"] != 0 {
			t.Errorf("%s: executions %v", era, got)
		}
	}
}

// If the router is killed while a legacy client's person is asked, the next one asks again.
func TestScriptAsksLegacyClientAgain(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := newScripting(t, nil)
	c := s.start()
	c.Declare(personal)
	var questions atomic.Int32
	c.OnRequest(func(string, json.RawMessage) (json.RawMessage, *mcptest.Error) {
		if questions.Add(1) == 1 {
			s.kill(syscall.SIGKILL)
		}
		return json.RawMessage(`{"action":"accept","content":{}}`), nil
	})
	if _, err := c.Initialize(within(t)); err != nil {
		t.Fatal(err)
	}
	runScript(t, c, fmt.Sprintf(approveOne, "ledger_put", 0), nil).gives(t, "before,middle,after")
	if got := s.executions(); questions.Load() != 2 || got["middle"] != 1 || got["after"] != 1 {
		t.Errorf("%d questions, executions %v", questions.Load(), got)
	}
}

// A script does not go on under other rules, neither in the same router nor in the next.
func TestScriptAfterEditOfItsProfile(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	for name, profiles := range map[string]any{
		"denied":      map[string]any{"work": map[string]any{"tools": map[string]any{"deny": []string{"ledger_charge"}}}},
		"other rules": map[string]any{"work": map[string]any{"ask": "always"}},
		"removed":     map[string]any{},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", restarted ", restarts), func(t *testing.T) {
				t.Parallel()
				code := fmt.Sprintf(approveOne, "ledger_charge", 0)
				s, whole, restart := newRestarting(t, "http", map[string]any{"profiles": map[string]any{"work": asksForWrites()}})
				c := s.overHTTP(whole.(*mcptest.HTTPClient).URL + "/p/work")
				a := suspended(t, c, code, 1)
				s.write(s.servers, scriptSettings(map[string]any{"profiles": profiles}))
				want := "the requestState is not valid for this request"
				if restarts {
					restart(syscall.SIGKILL)
					want = "its profile was edited"
				} else {
					mcptest.WaitFor(t, "the edit", func() bool {
						a, err := tryScript(within(t), c, `await describe("s:ledger_charge"); await call("s:echo", {message: "x"})`, nil)
						return err != nil || a.IsError || a.ResultType == "input_required"
					})
				}
				if name == "removed" {
					want = "HTTP status 404"
				}
				if last, err := tryScript(within(t), c, code, a.answers("accept")); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s, %v, want %s", last.raw, err, want)
				}
				s.executed("before")
			})
		}
	}
}

// An edit of the profile is in force at once for a script that runs, also for the call that is approved after it.
func TestScriptDuringEditOfItsProfile(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := newScripting(t, nil)
	c := s.start()
	c.Declare(personal)
	c.OnRequest(func(string, json.RawMessage) (json.RawMessage, *mcptest.Error) {
		edited := map[string]any{"tools": map[string]any{"ask": []string{"ledger_charge"}, "deny": []string{"ledger_put"}}}
		s.write(s.servers, scriptSettings(map[string]any{"profiles": map[string]any{"default": edited}}))
		for ctx := within(t); ; {
			a, err := tryScript(ctx, c, `return await describe("s:ledger_put")`, nil)
			if err != nil || a.IsError {
				return json.RawMessage(`{"action":"accept","content":{}}`), nil
			}
		}
	})
	if _, err := c.Initialize(within(t)); err != nil {
		t.Fatal(err)
	}
	a := runScript(t, c, `const a = await callSafe("s:ledger_charge", {id: "charge"});
const b = await callSafe("s:ledger_put", {id: "put"});
return [a.error.message, b.error.message, await call("s:ledger_read", {id: "read"})].join()`, nil)
	if text := a.text(); a.IsError || !strings.Contains(text, "the profile was edited while a person was asked") || !strings.Contains(text, "ledger_put") {
		t.Errorf("got %s", a.raw)
	}
	s.executed("read")
}

// An answer that is sent twice gets the result of the first, and does nothing twice: at once, in the router that asked or in
// the next, and after the end.
func TestScriptAnsweredTwice(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprint("restarted ", restarts), func(t *testing.T) {
			t.Parallel()
			s, c, restart := newRestarting(t, "http", nil)
			code := fmt.Sprintf(approveOne, "ledger_charge", 500)
			a := suspended(t, c, code, 1)
			if restarts {
				restart(syscall.SIGKILL)
			}
			var both errgroup.Group
			for range 2 {
				both.Go(func() error {
					last, err := tryScript(within(t), c, code, a.answers("accept"))
					if err == nil {
						last.gives(t, "before,middle,after")
					}
					return err
				})
			}
			if err := both.Wait(); err != nil {
				t.Fatal(err)
			}
			for _, action := range []string{"accept", "decline"} {
				runScript(t, c, code, a.answers(action)).gives(t, "before,middle,after")
			}
			s.executed("before", "middle", "after")
		})
	}
}

// A state is for one principal, one profile, one script and one input.
func TestScriptStateOfAnother(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	const ada, bob, eve = "token-of-ada-0123456789", "token-of-bob-0123456789", "token-of-eve-0123456789"
	s := newScripting(t, map[string]any{
		"http": map[string]any{"tokens": []any{
			map[string]any{"token": ada, "name": "ada"}, map[string]any{"token": bob, "name": "bob"}, map[string]any{"token": eve, "name": "eve", "profile": "other"},
		}},
		"profiles": map[string]any{"default": asksForWrites(), "other": asksForWrites()},
	})
	address := mcptest.FreeAddress(t)
	router := s.serveAt(address)
	url := "http://" + address + "/mcp"
	c := s.overHTTP(url, "Authorization", "Bearer "+ada)
	code := fmt.Sprintf(approveOne, "ledger_charge", 0)
	a := suspended(t, c, code, 1)
	for range 2 { // also in the next router
		input := a.answers("accept")
		input["arguments"] = map[string]any{"code": code, "input": 1}
		for name, try := range map[string]func() (scriptAnswer, error){
			"another principal": func() (scriptAnswer, error) {
				return tryScript(within(t), s.overHTTP(url, "Authorization", "Bearer "+bob), code, a.answers("accept"))
			},
			"another profile": func() (scriptAnswer, error) {
				return tryScript(within(t), s.overHTTP(url, "Authorization", "Bearer "+eve), code, a.answers("accept"))
			},
			"another script": func() (scriptAnswer, error) { return tryScript(within(t), c, code+" ", a.answers("accept")) },
			"another input":  func() (scriptAnswer, error) { return tryScript(within(t), c, code, input) },
		} {
			if last, err := try(); err == nil || !strings.Contains(err.Error(), "the requestState is not valid for this request") {
				t.Errorf("%s: %s, %v", name, last.raw, err)
			}
		}
		s.executed("before")
		router.Cmd.Process.Signal(syscall.SIGTERM)
		<-router.Done
		router = s.serveAt(address)
	}
	runScript(t, c, code, a.answers("accept")).gives(t, "before,middle,after")
	s.executed("before", "middle", "after")
}

// A cancelled script stops with its calls and leaves no file, before it was suspended and after. One that has ended without a
// question leaves no file either.
func TestScriptIsCancelled(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := newScripting(t, nil)
	trace := filepath.Join(s.dir, "trace")
	s.servers["s"] = fake("-tools", "ledger_read,ledger_charge", "-ledger", s.ledger, "-trace", trace)
	s.write(s.servers, scriptSettings(nil))
	url, _ := s.serveHTTP()
	const long = 60_000 // milliseconds: the cancellation comes before the end
	for name, c := range map[string]mcptest.Requester{"http": s.overHTTP(url), "stdio": s.overStdio()} {
		code := func(tool, id string, ms int) string {
			return strings.ReplaceAll(fmt.Sprintf(approveOne, tool, ms), `id: "`, `id: "`+name+id)
		}
		cancelled := count(trace, "notifications/cancelled")
		asks := code("ledger_charge", "asked", long)
		a := suspended(t, c, asks, 1)
		if len(s.files()) != 1 {
			t.Errorf("%s: while the script waits: %q", name, s.files())
		}
		for id, run := range map[string]func(ctx context.Context) (scriptAnswer, error){
			"asked": func(ctx context.Context) (scriptAnswer, error) { return tryScript(ctx, c, asks, a.answers("accept")) },
			"quiet": func(ctx context.Context) (scriptAnswer, error) {
				return tryScript(ctx, c, code("ledger_read", "quiet", long), nil)
			},
		} {
			ctx, cancel := context.WithCancel(within(t))
			done := make(chan error)
			go func() {
				_, err := run(ctx)
				done <- err
			}()
			mcptest.WaitFor(t, "the call", func() bool { return s.executions()[name+id+"middle"] == 1 })
			cancel()
			if err := <-done; err == nil {
				t.Errorf("%s, %s: the script has ended", name, id)
			}
		}
		mcptest.WaitFor(t, "the server to hear of both", func() bool { return count(trace, "notifications/cancelled") >= cancelled+2 })
		mcptest.WaitFor(t, "the removal of the files", func() bool { return len(s.files()) == 0 })
		if last, err := tryScript(within(t), c, asks, a.answers("accept")); err == nil {
			t.Errorf("%s: the answer after the request was cancelled: %s", name, last.raw)
		}
		runScript(t, c, code("ledger_read", "last", 0), nil)
		if len(s.files()) != 0 {
			t.Errorf("%s: after the end: %q", name, s.files())
		}
		if got := s.ended(); got[name+"askedmiddle"] || got[name+"quietmiddle"] || !got[name+"lastmiddle"] {
			t.Errorf("%s: ended %v", name, got)
		}
		if n := s.executions()[name+"askedmiddle"]; n != 1 {
			t.Errorf("%s: the call was made %d times", name, n)
		}
	}
}

// Without a data folder, scripts go on while the router lives. The next router says why it can't go on.
func TestScriptWithoutDataFolder(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := newScripting(t, nil)
	address := mcptest.FreeAddress(t)
	router := s.serveAt(address, "--data", "")
	c := s.overHTTP("http://" + address + "/mcp")
	code := fmt.Sprintf(approveOne, "ledger_charge", 0)
	runScript(t, c, code, suspended(t, c, code, 1).answers("accept")).gives(t, "before,middle,after")

	a := suspended(t, c, code, 1)
	router.Kill()
	s.serveAt(address, "--data", "")
	if last, err := tryScript(within(t), c, code, a.answers("accept")); err == nil || !strings.Contains(err.Error(), "router that held it has ended") {
		t.Errorf("%s, %v", last.raw, err)
	}
	if n := s.executions()["middle"]; n != 1 {
		t.Errorf("the call was made %d times", n)
	}
}

// Scripts that wait for a person leave their memory to others, and go on when the answer comes.
func TestScriptsThatWaitLeaveMemory(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := newScripting(t, map[string]any{"scripts": map[string]any{"memory": "8MiB"}})
	url, _ := s.serveHTTP()
	c := s.overHTTP(url)
	const fill = "const large = new Uint8Array(4 << 20).fill(1); "
	var codes []string
	var asked []scriptAnswer
	for i := range 4 {
		codes = append(codes, strings.ReplaceAll(fill+fmt.Sprintf(approveOne, "ledger_charge", 0), `id: "`, fmt.Sprintf(`id: "%d`, i)))
		asked = append(asked, suspended(t, c, codes[i], 1))
	}
	runScript(t, c, fill+`return "other"`, nil).gives(t, "other")
	for i, a := range asked {
		for range 2 {
			runScript(t, c, codes[i], a.answers("accept")).gives(t, fmt.Sprintf("%[1]dbefore,%[1]dmiddle,%[1]dafter", i))
		}
		for _, id := range []string{"before", "middle", "after"} {
			if n := s.executions()[fmt.Sprint(i, id)]; n != 1 {
				t.Errorf("%s of script %d was made %d times", id, i, n)
			}
		}
	}
}

// A script ends if a server dies during a call that may do harm.
func TestScriptWhoseServerDies(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := newScripting(t, map[string]any{"profiles": map[string]any{}})
	s.servers["s"] = fake("-tools", "pid,ledger_charge", "-ledger", s.ledger)
	s.write(s.servers, scriptSettings(map[string]any{"profiles": map[string]any{}}))
	c := s.overStdio()
	pid := strings.TrimSpace(runScript(t, c, `return String(await call("s:pid"))`, nil).text())
	done := make(chan scriptAnswer)
	go func() {
		a, _ := tryScript(within(t), c, `await callSafe("s:ledger_charge", {id: "x", ms: 60000}); return "went on"`, nil)
		done <- a
	}()
	mcptest.WaitFor(t, "the call", func() bool { return s.executions()["x"] == 1 })
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	(<-done).fails(t, "LostError", "its effect is unknown")
	s.executed("x")
}
