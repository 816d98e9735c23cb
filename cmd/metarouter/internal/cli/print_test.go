package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// printed returns the findings as they are printed.
func printed(d doctor.Diagnosis, pinning bool) string {
	var out bytes.Buffer
	c := console.New(nil, &out, &out)
	printFindings(&Env{Console: c, Runner: &service.Runner{Files: &configfile.Source{Console: c}}}, d, pinning)
	return out.String()
}

func TestFindings(t *testing.T) {
	d := doctor.Diagnosis{Findings: []doctor.Finding{
		{Server: "a", Severity: doctor.Broken, Problem: "it ended, and there are many words in this sentence.", Fix: "do this, which takes as many words as that", Details: []string{"Error: x\x1b[2J"}},
		{Server: "a", Severity: doctor.Note, Problem: "it is old."},
		{Severity: doctor.Warning, Problem: "all is dear.", Fix: "spare"},
	}, Verdict: "0 of 1 servers work"}
	want := `a
  ✗ it ended, and there are many words in this sentence.
      | Error: x
    → do this, which takes as many words as that
  · it is old.

in general
  ! all is dear.
    → spare

0 of 1 servers work
`
	expect.Equal(t, printed(d, false), want)
}

// The advice to pin is given once, and not at all while versions are being pinned.
func TestPinOnce(t *testing.T) {
	slow := doctor.Finding{Server: "s", Severity: doctor.Warning, Problem: "slow.", Fix: doctor.PinAdvice}
	one, two := doctor.Diagnosis{Findings: []doctor.Finding{slow}}, doctor.Diagnosis{Findings: []doctor.Finding{slow, slow}}
	for _, test := range []struct {
		d       doctor.Diagnosis
		pinning bool
		advice  int
	}{{one, false, 1}, {one, true, 0}, {two, false, 1}, {two, true, 0}} {
		got := strings.Count(printed(test.d, test.pinning), "--pin")
		expect.Equal(t, got, test.advice, "%d servers, pinning %t: times the advice is there", len(test.d.Findings), test.pinning)
	}
}

// A number says how sure an answer is, and a dash that there is nothing to be sure of.
func TestShownConfidence(t *testing.T) {
	for confidence, want := range map[float64]string{0: "–", 0.009: "–", 0.012: "0.01", 0.189: "0.18", 0.499: "0.49", 0.5: "0.50", 1: "1.00"} {
		expect.Equal(t, shownConfidence(confidence), want, "%v", confidence)
	}
}

// The text of an error, which may count seconds, is no change of a server. Neither are repairs.
func TestPrintChangesOfWaitingServer(t *testing.T) {
	var out bytes.Buffer
	e, shown := &Env{Console: console.New(nil, &out, &out)}, make(map[string]exposure.ServerRow)
	for i, reason := range []string{"waiting to be fetched, for 1s", "waiting to be fetched, for 2s", "npx is fetching pkg, for 1m3s", "exited with status 3"} {
		row := exposure.ServerRow{Name: "a", State: []string{"restarting", "failed"}[i/3], LastError: reason, Repairs: fmt.Sprint(i)}
		expect.OK(t, printWatched(e, shown, []exposure.ServerRow{row}))
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2 || !strings.Contains(out.String(), "exited with status 3") {
		t.Errorf("it prints %q", out.String())
	}
}
