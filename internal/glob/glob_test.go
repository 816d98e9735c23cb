package glob

import (
	"errors"
	"path"
	"strings"
	"testing"

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
		{"files__wr*", "files", "write", true, false},
		{"files__wr*", "other", "write", false, false},
		{"other__*", "files", "other__read", true, true},
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
	for _, bad := range []string{"[", "[]", "[]a]", "[^", "[^]", "[a", "[a-", "[a-]", "[-a]", `\`, `[\`, "a[", "\xff"} {
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

// FuzzMatch compares the matcher with path.Match, which is the same without slashes, and checks
// that a pattern of a name's own characters matches the name.
func FuzzMatch(f *testing.F) {
	for _, seed := range [][2]string{{"a*b", "axxb"}, {"[^a-c]?*", "xyz"}, {`\[*`, "[a"}, {"*a*b*", "ab"}, {"[a-]", "-"}, {"x*[", "y"}} {
		f.Add(seed[0], seed[1])
	}
	quote := strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, `\`, `\\`)
	f.Fuzz(func(t *testing.T, pattern, name string) {
		p, err := Parse(pattern)
		if ascii(pattern + name) {
			flat := strings.ReplaceAll(name, "/", "")
			want, bad := path.Match(pattern, flat)
			if (err != nil) != (bad != nil) && len(pattern) <= MaxLength {
				t.Fatalf("Parse(%q): %v, and path.Match: %v", pattern, err, bad)
			}
			// Only stars and classes of path.Match tell a slash from other characters.
			if err == nil && p.Match(flat) != want {
				t.Errorf("%q matches %q: %t, want %t", pattern, flat, !want, want)
			}
		}
		own, err := Parse(quote.Replace(name))
		if err == nil && (!own.IsName() || !own.Match(name)) {
			t.Errorf("the pattern %q does not match %q", own, name)
		}
	})
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}
