package text

import (
	"slices"
	"strings"
	"testing"
)

func TestRespell(t *testing.T) {
	for _, tc := range []struct {
		task string
		has  []string // words of tools
		word string
		want []string
	}{
		{"a git hub repository", []string{"github"}, "hub", []string{"github"}},
		{"a GitHub repository", []string{"github"}, "github", nil},
		{"a ClickHouse table", []string{"click", "house"}, "clickhous", []string{"click", "house"}},
		{"readfile notes", []string{"read", "file"}, "readfil", []string{"read", "file"}},
		{"navigatepage now", []string{"navig", "page"}, "navigatepag", []string{"navig", "page"}},
		{"sendmail now", []string{"send", "mail"}, "sendmail", []string{"send", "mail"}},
		{"sendmail now", []string{"sendmail", "send", "mail"}, "sendmail", nil}, // some tool has it
		{"sendmail now", []string{"send"}, "sendmail", nil},
	} {
		task := Parse(tc.task)
		task.Respell(func(w string) bool { return slices.Contains(tc.has, w) })
		i := slices.IndexFunc(task.Words, func(w Word) bool { return w.Text == tc.word })
		if i < 0 || !slices.Equal(task.Words[i].Spellings, tc.want) {
			t.Errorf("%q: %+v, want %q as %q", tc.task, task.Words, tc.word, tc.want)
		}
	}
}

// Two words that are too long to be one have no other spelling, and neither has Han.
func TestRespellOfLongWords(t *testing.T) {
	for _, task := range []string{"convert " + strings.Repeat("a", 40) + " " + strings.Repeat("b", 40), "删除文件夹"} {
		parsed := Parse(task)
		parsed.Respell(func(string) bool { return true })
		for _, w := range parsed.Words {
			if len(w.Spellings) > 0 && (w.Text[0] == 'b' || strings.ContainsAny(w.Text, "删除文件夹")) {
				t.Errorf("%q: %q is also spelled %q", task, w.Text, w.Spellings)
			}
		}
	}
}
