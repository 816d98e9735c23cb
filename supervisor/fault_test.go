//go:build unix

package supervisor

import (
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/play"
)

// The same for servers that run, and the fault goes once the server is ready.
func TestFaultsOfServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := supervise(t)
		late := fake("", "-mute")
		late.StartTimeout = 500 * time.Millisecond
		lateLister := fake("", "-hang", "tools/list")
		lateLister.StartTimeout = 20 * time.Second
		missing := config.Server{Transport: config.Stdio, Command: "no-such-program-anywhere", StartTimeout: time.Minute}
		f.checkFaults(map[string]faultCase{
			"exits":    {fake("", "-exit"), status.Fault{Kind: status.Exited, Code: 3}},
			"mute":     {late, status.Fault{Kind: status.TimedOut, After: late.StartTimeout}},
			"no list":  {lateLister, status.Fault{Kind: status.TimedOut, After: lateLister.StartTimeout, Listing: true}},
			"missing":  {missing, status.Fault{Kind: status.CommandMissing, Command: missing.Command, Path: os.Getenv("PATH")}},
			"protocol": {fake("", "-protocol", "2099-01-01"), status.Fault{Kind: status.WrongProtocol, Protocol: "2099-01-01"}},
		})
		expect.Contains(t, f.state("missing").LastError, `"no-such-program-anywhere" is not on PATH`)
		good := fake("exits", "-start-delay", "1s")
		f.apply(good)
		mcptest.WaitFor(t, "the edited server to have no fault", func() bool {
			st := f.state("exits")
			return st.State == status.Ready && st.Fault == nil && st.Took >= time.Second
		})
	})
}

// A server that prints text and no message has a fault of its own. It is known before the time to start is over.
func TestFaultOfText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("text")
		entry.StartTimeout = 5 * time.Minute
		f := superviseProgram(t, func(_ []string, stdin io.Reader, stdout, _ io.Writer) int {
			io.WriteString(stdout, "Usage: x\n")
			io.Copy(io.Discard, stdin)
			return 0
		})
		f.checkFaults(map[string]faultCase{"text": {entry, status.Fault{Kind: status.PrintsText}}})
		expect.Equal(t, f.state("text").Fault.Message, "Usage: x", "it prints")
	})
}

// The first line of noise is kept, unless it may hold a result.
func TestStrayLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := superviseWith(t, t.TempDir(), func(v *Supervisor) {
			v.starter.Play = func(c process.Command) *process.Played {
				p := play.Server(c)
				noise := strings.NewReader("{\"secret\": 1}\nHello, I am noisy\nagain\n")
				p.Stdout = struct {
					io.Reader
					io.Closer
				}{io.MultiReader(noise, p.Stdout), p.Stdout}
				return p
			}
		}, fake("noisy"))
		if st := f.await("noisy", status.Ready); st.StrayLine != "Hello, I am noisy" || st.StrayLines != 3 {
			t.Errorf("it tells of %d lines, such as %q", st.StrayLines, st.StrayLine)
		}
	})
}

// A faultCase is an entry that does not start, and its fault but for what differs from run to run.
type faultCase struct {
	entry config.Server
	want  status.Fault
}

// checkFaults applies the entries and compares their faults.
func (f *fixture) checkFaults(tests map[string]faultCase) {
	t := f.t
	t.Helper()
	var entries []config.Server
	for name, tc := range tests {
		tc.entry.Name = name
		entries = append(entries, tc.entry)
	}
	f.apply(entries...)
	for name, tc := range tests {
		var got status.Fault
		mcptest.WaitFor(t, name+" to fail", func() bool {
			st := f.state(name)
			if st.Fault != nil {
				got = *st.Fault
			}
			return st.Fault != nil
		})
		said := got.Said
		got.Said, got.Message = nil, ""
		if tc.want.Kind == status.Exited {
			got.After = 0
		}
		if !equalFaults(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
		if name == "exits" && len(said) == 0 {
			t.Error("it does not tell what the server said")
		}
		if tc.want.Kind == status.TimedOut && !strings.Contains(f.state(name).LastError, "not ready within "+tc.want.After.String()) {
			t.Errorf("%s: %s", name, f.state(name).LastError)
		}
		if st := f.state(name); st.Since.IsZero() || st.LastError == "" {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

func equalFaults(a, b status.Fault) bool {
	a.Fetches, b.Fetches, a.Said, b.Said = nil, nil, nil, nil
	return a.Kind == b.Kind && a.Command == b.Command && a.Path == b.Path && a.Folder == b.Folder && a.Code == b.Code && a.Signal == b.Signal &&
		a.After == b.After && a.HadToken == b.HadToken && a.Protocol == b.Protocol && a.Net == b.Net && a.Listing == b.Listing
}
