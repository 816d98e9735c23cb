package text

import (
	"reflect"
	"slices"
	"testing"
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
		if got := Actions(task); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", task, got, want)
		}
	}
}

// A word of the task stands for its stem; what only begins alike does not.
func TestUnstemmed(t *testing.T) {
	for _, tc := range []struct{ stem, task, want string }{
		{"librari", "a good library", "library"}, {"move", "Moving house", "Moving"}, {"read", "lies die Datei", "read"},
		{"db", "das ist alles", "db"}, {"go", "give it", "go"}, {"größ", "die Größe", "Größe"}, {"", "a b", ""},
	} {
		if got := unstemmed(tc.stem, plainWords(tc.task)); got != tc.want {
			t.Errorf("%q in %q: %q, want %q", tc.stem, tc.task, got, tc.want)
		}
	}
}

func TestParse(t *testing.T) {
	for task, want := range map[string][]Word{
		"":                            nil,
		"please help me":              {{Text: "pleas"}, {Text: "help"}},
		"Please, parse XML and XML-1": {{Text: "pars"}, {Text: "xml"}},
		"delete it":                   {{Text: "delet", Synonyms: []string{"drop", "eras", "remov"}}},
	} {
		if got := Parse(task).Words; !reflect.DeepEqual(got, want) {
			t.Errorf("parse(%q) = %v, want %v", task, got, want)
		}
	}
}
