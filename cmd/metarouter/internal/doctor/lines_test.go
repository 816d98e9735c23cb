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
