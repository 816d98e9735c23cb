package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestSplitPairs(t *testing.T) {
	for _, test := range []struct{ args, words, pairs []string }{
		{[]string{"read a file", "path=/x"}, []string{"read a file"}, []string{"path=/x"}},
		{[]string{"convert", "value=5", "to", "miles", "from-unit="}, []string{"convert", "to", "miles"}, []string{"value=5", "from-unit="}},
		{[]string{"x=5"}, []string{"x=5"}, nil},
		{[]string{"open", "https://example.com/?a=b", "5=5", "with a=b", "==", "="}, []string{"open", "https://example.com/?a=b", "5=5", "with a=b", "==", "="}, nil},
	} {
		task, pairs := splitPairs(test.args)
		if task != strings.Join(test.words, " ") || !slices.Equal(pairs, test.pairs) {
			t.Errorf("%q: task %q, pairs %q", test.args, task, pairs)
		}
	}
}
