package glob

import (
	"errors"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestMatch(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"read", "read", true},
		{"read", "read_file", false},
		{"read_*", "read_file", true},
		{"read_*", "read_", true},
		{"read_*", "thread_file", false},
		{"*_file", "read_file", true},
		{"*_file", "read_files", false},
		{"*", "", true},
		{"*", "file:///srv/a/b", true},
		{"file:///srv/*", "file:///srv/a/b", true},
		{"file:///srv/?", "file:///srv//", true},
		{"file:///srv[^a]b", "file:///srv/b", true},
		{"*a*b*c", "xxaxxbxxbxc", true},
		{"*a*b*c", "xxaxxbxxbx", false},
		{"a?c", "a€c", true},
		{"[a-c]x", "bx", true},
		{"[^a-c]x", "bx", false},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{`[\]]`, "]", true},
		{"[c-a]", "b", false},
		{"**", "a", true},
	} {
		p, err := Parse(test.pattern)
		if err != nil {
			t.Errorf("Parse(%q): %v", test.pattern, err)
		} else if got := p.Match(test.name); got != test.want {
			t.Errorf("%q matches %q: %t, want %t", test.pattern, test.name, got, test.want)
		}
	}
}

func TestItem(t *testing.T) {
	for _, test := range []struct {
		pattern, server, name string
		matches, isAllowed    bool
	}{
		{"read_*", "files", "read_file", true, true},
		{"files:*", "files", "read_file", true, true},
		{"files:*", "other", "files:read", true, false},
		{"file*", "files", "write", true, false},
		{"file:///srv/*", "files", "file:///srv/a", true, true},
		{"files:file:///srv/*", "files", "file:///srv/a", true, true},
		{"urn:*", "files", "urn:1", true, false},
		{"*", "files", "read_file", true, true},
		{"read", "files", "read_file", false, false},
	} {
		p, err := Parse(test.pattern)
		expect.OK(t, err)
		i := Item{Name: test.name, ID: test.server + ":" + test.name}
		if i.Matches(p) != test.matches || i.IsAllowed(p) != test.isAllowed {
			t.Errorf("%q, %s: matches %t, is allowed %t", p, i.ID, i.Matches(p), i.IsAllowed(p))
		}
	}
}

func TestBadPatterns(t *testing.T) {
	for _, bad := range []string{"[", "[]", "[]a]", "[^", "[^]", "[a", "[a-", "[a-]", "[-a]", `\`, `[\`, "a["} {
		if _, err := Parse(bad); !errors.Is(err, path.ErrBadPattern) {
			t.Errorf("Parse(%q): %v, want ErrBadPattern", bad, err)
		}
	}
	if _, err := Parse(strings.Repeat("a", MaxLength+1)); !errors.Is(err, ErrTooLong) {
		t.Errorf("a pattern of %d bytes: %v, want ErrTooLong", MaxLength+1, err)
	}
}

// TestManyStars would not end if each star were tried at each place.
func TestManyStars(t *testing.T) {
	p, err := Parse(strings.Repeat("*a", MaxLength/2-1) + "b")
	expect.OK(t, err)
	if p.Match(strings.Repeat("a", 10000)) {
		t.Error("the name has no b")
	}
}

func BenchmarkMatch(b *testing.B) {
	p, err := Parse("create_*")
	expect.OK(b, err)
	for b.Loop() {
		p.Match("create_pull_request_review")
		p.Match("list_pull_requests")
	}
}

// FuzzMatch checks that a pattern of a name's own characters matches the name, and that a slash is as any
// other character of it.
func FuzzMatch(f *testing.F) {
	for _, seed := range []string{"axxb", "[a", "file:///srv/a*", `a\b?`} {
		f.Add(seed)
	}
	quote := strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, `\`, `\\`)
	f.Fuzz(func(t *testing.T, name string) {
		for _, pattern := range []string{quote.Replace(name), "*", "*" + quote.Replace(name), strings.Repeat("?", utf8.RuneCountInString(name))} {
			if p, err := Parse(pattern); err == nil && !p.Match(name) {
				t.Errorf("the pattern %q does not match %q", p, name)
			}
		}
		if own, err := Parse(quote.Replace(name)); err == nil && !own.IsName() {
			t.Errorf("%q is no name", own)
		}
	})
}
