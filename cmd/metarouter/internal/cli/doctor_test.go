package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
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
