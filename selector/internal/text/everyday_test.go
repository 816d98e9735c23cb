package text

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
)

// everydayLines yields the phrases and the meaning of each line of everyday.txt.
func everydayLines(t *testing.T, yield func(phrases []string, means string)) {
	t.Helper()
	for line := range strings.Lines(everydayList) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		said, means, ok := strings.Cut(line, ": ")
		if !ok || len(analysis.Words(means)) != len(strings.Fields(means)) {
			t.Errorf("%q: want phrases, a colon, and words that are none of those that are left out", line)
			continue
		}
		yield(strings.Split(said, ", "), means)
	}
}

// Every phrase is on one line, is in the form of the list, and finds itself in a task.
func TestEverydayList(t *testing.T) {
	known := make(map[string]string)
	everydayLines(t, func(phrases []string, means string) {
		for _, p := range phrases {
			stems := strings.Join(phraseStems(p, make(analysis.Stemmer)), " ")
			if other, ok := known[stems]; ok {
				t.Errorf("%q is %q", p, other)
			}
			known[stems] = p
			if p != strings.ToLower(strings.TrimSpace(p)) || p == "" {
				t.Errorf("%q is not in lower case", p)
			}
			if missed := missedMeaning(p, means); missed != "" {
				t.Errorf("%q: no word of it means %q", p, missed)
			}
		}
	})
	if len(known) < 500 {
		t.Errorf("%d phrases", len(known))
	}
}

var exampleValues = strings.NewReplacer("<path>", "./a/b.txt", "<url>", "https://example.com/a", "<number>", "17", "<quote>", `"Qqq zzz"`,
	"<email>", "ann@example.com", "<host>", "10.0.0.1", "<id>", "#12", "<query>", "`SELECT a FROM b`", "<selector>", "#login > a")

// missedMeaning returns the word of a phrase's meaning that a task of the phrase, and of
// English words that mean nothing, does not have.
func missedMeaning(p, means string) string {
	task := Parse("i should " + exampleValues.Replace(p) + " with the qqq")
	for _, m := range analysis.Words(means) {
		if !slices.ContainsFunc(task.Words, func(w Word) bool { return w.Text == m || slices.Contains(w.Synonyms, m) }) {
			return m
		}
	}
	return ""
}

var opposites = []string{
	"open close", "start stop", "create delete", "create remove", "add remove", "add delete", "read write", "lock unlock",
	"enable disable", "import export", "upload download", "encode decode", "encrypt decrypt", "push pull", "show hide",
	"send receive", "mount unmount", "connect disconnect", "install uninstall", "subscribe unsubscribe", "login logout",
	"compress extract", "allow deny", "grant revoke", "accept decline", "approve reject", "mute unmute", "pause resume",
	"follow unfollow", "block unblock", "archive unarchive", "increase decrease", "buy sell", "star unstar", "backup restore",
	"forward back", "assign unassign", "attach detach", "publish unpublish", "pin unpin", "list create",
	"list delete", "get delete", "get create", "search create", "search delete", "read delete", "run stop", "kill run",
}

// No word stands for its opposite, by synonyms, by phrases, or by both.
func TestNoSynonymCrossesAnOpposite(t *testing.T) {
	means := func(w string) []string { return append([]string{w}, synonymsOf(w)...) }
	for _, pair := range opposites {
		a, b, _ := strings.Cut(pair, " ")
		for _, p := range [][2]string{{a, b}, {b, a}} {
			if from, to := p[0], analysis.Words(p[1])[0]; slices.Contains(means(analysis.Words(from)[0]), to) {
				t.Errorf("%q stands for %q", from, p[1])
			}
		}
	}
	everydayLines(t, func(phrases []string, meant string) {
		// What a line means, and synonyms of that, and what a phrase that is one word has as synonyms.
		var all []string
		for _, m := range analysis.Words(meant) {
			all = union(all, means(m))
		}
		for _, p := range phrases {
			for _, pair := range opposites[:len(opposites)-9] {
				a, b, _ := strings.Cut(pair, " ")
				for _, p2 := range [][2]string{{a, b}, {b, a}} {
					from, to := analysis.Words(p2[0])[0], analysis.Words(p2[1])[0]
					words := analysis.Words(p)
					if len(words) == 1 && slices.Contains(means(words[0]), from) && slices.Contains(all, to) {
						t.Errorf("%q: %q stands for %q", p, p2[0], p2[1])
					}
				}
			}
		}
		for _, pair := range opposites {
			a, b, _ := strings.Cut(pair, " ")
			if means := analysis.Words(meant); slices.Contains(means, analysis.Words(a)[0]) && slices.Contains(means, analysis.Words(b)[0]) {
				t.Errorf("%q has %q and %q", meant, a, b)
			}
		}
	})
}

func synonymsOf(w string) []string { return wordLists().synonyms[w] }

func TestEverydayWords(t *testing.T) {
	for _, tc := range []struct{ task, word, want string }{
		{"go back to last week's release", "back", "rollback"},
		{"it keeps crashing", "crash", "log"},
		{"Crashed again", "crash", "error"},
		{"what's on my plate", "plate", ""},
		{"get rid of the old branch", "rid", "delet"},
		{"rm /tmp/a.csv", "rm", "delet"},
		{"open report.docx", "docx", "word"},
		{"note it down", "note", "memo"},
	} {
		found := false
		for _, w := range Parse(tc.task).Words {
			found = found || w.Text == tc.word && slices.Contains(w.Synonyms, tc.want)
		}
		if found != (tc.want != "") {
			t.Errorf("%q: %q means %q: %v", tc.task, tc.word, tc.want, found)
		}
	}
}

// A phrase may name a kind of value.
func TestPhraseWithValue(t *testing.T) {
	for task, want := range map[string]bool{"add 17 and 25": true, "add a label": false, "add https://example.com": false} {
		i := slices.IndexFunc(Parse(task).Words, func(w Word) bool { return slices.Contains(w.Synonyms, "sum") })
		if got := i >= 0; got != want {
			t.Errorf("%q asks for a sum: %v", task, got)
		}
	}
}
