package text

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestActions(t *testing.T) {
	for task, want := range map[string][]string{
		"":                                 nil,
		"Find flights and hotels in Paris": {"Find flights hotels in Paris"},
		"Convert a.docx to PDF, then merge the two files and send an email to Bob": {"Convert a.docx to PDF", "merge the two files", "send an email to Bob"},
		"Read the file. Tell me who is in it":                                      {"Read the file Tell me who is in it"},
		"open https://example.com and delete /tmp/a":                               {"open https://example.com", "delete /tmp/a"},
		"create a branch; delete the old one":                                      {"create a branch", "delete the old one"},
	} {
		expect.List(t, Actions(task), want, "%q", task)
	}
}

// A word of the task stands for its stem.
func TestSpeller(t *testing.T) {
	for _, tc := range []struct{ stem, task, want string }{
		{"librari", "a good Library", "Library"}, {"move", "Moving house", "Moving"}, {"db", "das ist alles", "db"}, {"", "a b", ""},
	} {
		expect.Equal(t, Speller(tc.task)(tc.stem), tc.want, "%q in %q", tc.stem, tc.task)
	}
}

func TestParse(t *testing.T) {
	for task, want := range map[string][]string{
		"":                            nil,
		"please help me":              {"pleas", "help"},
		"Please, parse XML and XML-1": {"pars", "xml"},
		"read /tmp/a.csv, then mail":  {"read", "tmp", "csv", "mail"},
	} {
		expect.List(t, Parse(task).Words, want, "the words of %q", task)
	}
	task := Parse("Lösche die Datei, dann  schicke eine Mail")
	expect.Equal(t, len(task.Steps), 2, "steps")
	chat := Parse("Please, open it and  close that, thanks").Steps // chatter alone is no step
	expect.Equal(t, len(chat), 2, "steps of a polite task")
	expect.Equal(t, chat[0].Plain, "Please, open it and", "the first step")
	expect.Equal(t, chat[1].Plain, "  close that, thanks", "the last step")
	expect.Equal(t, Parse("  open\nit ").Plain, "open it", "the task")
	task.Correct(func(w string) string { return w + "x" })
	expect.Equal(t, task.Words[0], "deletx", "the corrected word")
	var long strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&long, "w%d ", i)
	}
	calls := 0
	task = Parse(long.String())
	task.Correct(func(w string) string { calls++; return w })
	expect.Equal(t, calls, maxCorrected, "words of a long task that are corrected")
}

func TestValues(t *testing.T) {
	for task, want := range map[string][]string{
		"":                                      nil,
		"plain words. Two of it":                nil,
		`copy "/my files/a.md" to C:\b, please`: {"/my files/a.md", `C:\b`},
		"open https://example.com/x?y=1.":       {"https://example.com/x?y=1"},
		"(see example.com) and “~/notes” or `src/a.go`": {"example.com", "~/notes", "src/a.go"},
	} {
		expect.List(t, Values(task), want, "the values of %q", task)
	}
}
