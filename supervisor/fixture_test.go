//go:build unix

package supervisor

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/play"
)

// The test binary plays the fake server, the guard and npm's shell.
func TestMain(m *testing.M) {
	process.Open(os.Args)
	if os.Getenv(process.ReportVariable) != "" {
		if err := process.Report(os.Stdout, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	mcptest.ServeIfAsked()
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		process.RunGuard(os.Stdin)
		os.Exit(0)
	}
	flag.Parse()
	flag.Set("test.parallel", "8") // the tests mostly wait for processes
	goleak.VerifyTestMain(m)
}

// A learner is a handler that lists the tools once a session is up.
type learner struct {
	mu      sync.Mutex
	learned map[string]int // listings by server
	tools   map[string]string
	known   map[string]bool
}

func (l *learner) Learn(ctx context.Context, entry config.Server, s session.Session) error {
	raw, err := s.Call(ctx, session.Request{Method: "tools/list", Params: json.RawMessage("{}")})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.learned[entry.Name]++
	l.tools[entry.Name] = string(raw)
	return nil
}

func (l *learner) Known(entry config.Server) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[entry.Name]
}

func (l *learner) Forget(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tools, server)
}

func (l *learner) listings(server string) (int, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.learned[server], l.tools[server]
}

// A fixture is a running supervisor.
type fixture struct {
	*Supervisor
	*learner
	t       *testing.T
	data    string
	logged  *observer.ObservedLogs // from info on
	configs chan config.Config
	stop    func()
}

func guardCommand() []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{self, "guard"}
}

// supervise runs a supervisor of the entries until the test ends. Fake servers run in memory.
func supervise(t *testing.T, entries ...config.Server) *fixture {
	t.Helper()
	return superviseIn(t, t.TempDir(), entries...)
}

func superviseIn(t *testing.T, data string, entries ...config.Server) *fixture {
	t.Helper()
	return superviseWith(t, data, func(*Supervisor) {}, entries...)
}

// superviseWith runs a supervisor that set may change before it runs.
func superviseWith(t *testing.T, data string, set func(*Supervisor), entries ...config.Server) *fixture {
	t.Helper()
	return superviseOptions(t, Options{DataDir: data, Play: play.Server}, set, entries...)
}

// superviseProgram runs a supervisor each of whose processes is the program, in memory.
func superviseProgram(t *testing.T, run fakeserver.Program, entries ...config.Server) *fixture {
	t.Helper()
	return superviseWith(t, t.TempDir(), func(v *Supervisor) { v.starter.Play = play.Program(run) }, entries...)
}

// superviseProcesses runs a supervisor whose servers are processes, with a guard and a reporter.
func superviseProcesses(t *testing.T, data string, entries ...config.Server) *fixture {
	t.Helper()
	return superviseOptions(t, Options{DataDir: data, Guard: guardCommand(), Reporter: guardCommand()[0]}, func(*Supervisor) {}, entries...)
}

func superviseOptions(t *testing.T, o Options, set func(*Supervisor), entries ...config.Server) *fixture {
	t.Helper()
	o.Version = "test"
	operator, logged := observer.New(zap.InfoLevel)
	log := zaptest.NewLogger(t, zaptest.Level(zap.DebugLevel), zaptest.WrapOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return zapcore.NewTee(c, operator) })))
	l := &learner{learned: make(map[string]int), tools: make(map[string]string), known: make(map[string]bool)}
	f := &fixture{t: t, learner: l, data: o.DataDir, logged: logged, configs: make(chan config.Config)}
	f.Supervisor = New(l, o, log)
	set(f.Supervisor)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx, f.configs) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		expect.OK(t, <-done, "Run")
	})
	t.Cleanup(f.stop)
	f.apply(entries...)
	return f
}

func (f *fixture) apply(entries ...config.Server) { f.configs <- config.Config{Servers: entries} }

// fake returns an entry whose server is the fake one.
func fake(name string, flags ...string) config.Server {
	command, args := mcptest.Command(append([]string{"-name", name}, flags...)...)
	return config.Server{Name: name, Transport: config.Stdio, Command: command, Args: args, StartTimeout: 30 * time.Second}
}

func (f *fixture) state(name string) status.Status {
	for _, s := range f.Status() {
		if s.Name == name {
			return s
		}
	}
	return status.Status{}
}

func (f *fixture) await(name string, state status.State) status.Status {
	f.t.Helper()
	mcptest.WaitFor(f.t, fmt.Sprintf("%s to be %s", name, state), func() bool { return f.state(name).State == state })
	return f.state(name)
}

// call calls a tool and returns its first text.
func (f *fixture) call(server, tool, arguments string) (string, error) {
	s, err := f.Session(f.t.Context(), server, nil)
	if err != nil {
		return "", err
	}
	raw, err := s.Call(f.t.Context(), session.Request{Method: "tools/call", Params: fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, arguments)})
	if err != nil {
		return "", err
	}
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) == 0 {
		return string(raw), err
	}
	return r.Content[0].Text, nil
}

func (f *fixture) mustCall(server, tool, arguments string) string {
	f.t.Helper()
	text, err := f.call(server, tool, arguments)
	expect.OK(f.t, err, "call %s of %s", tool, server)
	return text
}

func pidFile(t *testing.T) string { return filepath.Join(t.TempDir(), "pids") }
