package doctor

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestReportLines(t *testing.T) {
	d := Diagnosis{Findings: []Finding{
		{Server: "a", Severity: Broken, Problem: "it ended, and there are many words in this sentence.", Fix: "do this, which takes as many words as that", Details: []string{"Error: x\x1b[2J"}},
		{Server: "a", Severity: Note, Problem: "it is old."},
		{Severity: Warning, Problem: "all is dear.", Fix: "spare"},
	}, Verdict: "0 of 1 servers work"}
	want := `a
  ✗ it ended, and there are many words
    in this sentence.
      | Error: x
    → do this, which takes as many words
      as that
  · it is old.

in general
  ! all is dear.
    → spare

0 of 1 servers work`
	expect.Equal(t, strings.Join(d.Lines(40, false), "\n"), want)
}

// The advice to pin is given once, and not at all while versions are being pinned.
func TestPinOnce(t *testing.T) {
	slow := Finding{Server: "s", Severity: Warning, Problem: "slow.", Fix: pinAdvice}
	one, two := Diagnosis{Findings: []Finding{slow}}, Diagnosis{Findings: []Finding{slow, slow}}
	for _, test := range []struct {
		d       Diagnosis
		pinning bool
		advice  int
	}{{one, false, 1}, {one, true, 0}, {two, false, 1}, {two, true, 0}} {
		got := strings.Count(strings.Join(test.d.PinOnce(test.pinning).Lines(0, false), "\n"), "--pin")
		expect.Equal(t, got, test.advice, "%d servers, pinning %t: times the advice is there", len(test.d.Findings), test.pinning)
	}
}
