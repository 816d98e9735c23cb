package plain

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestPerson(t *testing.T) {
	for name, tc := range map[string]struct{ in, line, text string }{
		"ASCII":                 {"a b", "a b", "a b"},
		"lines":                 {"a\n\tb\r\nc\rd", "a  b  c d", "a\n\tb\nc\nd"},
		"other line ends":       {"a\u0085b\u2028c\u2029d\ve\ff", "a b c d e f", "a\nb\nc\nd\ne\nf"},
		"letters":               {"Größe 日本 مرحبا", "Größe 日本 مرحبا", "Größe 日本 مرحبا"},
		"colour":                {"\x1b[1;31mred\x1b[0m", "red", "red"},
		"8-bit CSI":             {"a\u009b31mb", "ab", "ab"},
		"CSI without end":       {"a\x1b[31", "a31", "a31"},
		"title":                 {"a\x1b]0;title\ab", "ab", "ab"},
		"clipboard (OSC 52)":    {"a\x1b]52;c;cm0gLXJm\x1b\\b", "ab", "ab"},
		"8-bit OSC 52":          {"a\u009d52;c;cm0gLXJm\u009cb", "ab", "ab"},
		"OSC in 8-bit OSC":      {"a\u009d0;title\u009d1;title\u009cb", "ab", "ab"},
		"OSC without end":       {"a\x1b]0;delete all", "a0;delete all", "a0;delete all"},
		"device control":        {"a\x1bP$q\x1b\\b", "ab", "ab"},
		"reset":                 {"a\x1bcb", "ab", "ab"},
		"charset":               {"a\x1b(0b", "ab", "ab"},
		"escape at the end":     {"a\x1b", "a", "a"},
		"bell, backspace":       {"a\a\bb\x7f\x00", "ab", "ab"},
		"bytes of no UTF-8":     {"a\x9b31m\xff", "a\uFFFD31m\uFFFD", "a\uFFFD31m\uFFFD"},
		"bidi":                  {"a\u202egpj.exe\u202c\u2066b\u2069\u200f\u061c", "agpj.exeb", "agpj.exeb"},
		"tags":                  {"a\U000E0069\U000E0067\U000E007Fb", "ab", "ab"},
		"zero width":            {"a\u200bb\u2060c\ufeffd", "abcd", "abcd"},
		"joiners in Latin":      {"a\u200db\u200cc", "abc", "abc"},
		"Persian":               {"می\u200cخواهم", "می\u200cخواهم", "می\u200cخواهم"},
		"Hindi":                 {"क्\u200dष", "क्\u200dष", "क्\u200dष"},
		"joiners in a row":      {"م\u200c\u200d\u200cخ", "م\u200cخ", "م\u200cخ"},
		"family":                {"👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"},
		"heart on fire":         {"❤\ufe0f\u200d🔥", "❤\ufe0f\u200d🔥", "❤\ufe0f\u200d🔥"},
		"key":                   {"1\ufe0f\u20e3", "1\ufe0f\u20e3", "1\ufe0f\u20e3"},
		"selectors as a code":   {"a\U000E0101\U000E0102😀\U000E0103\ufe0f\ufe0f\ufe01", "a😀\ufe0f", "a😀\ufe0f"},
		"soft hyphen":           {"pass\u00adword", "password", "password"},
		"annotation":            {"\ufff9a\ufffab\ufffb", "ab", "ab"},
		"fillers":               {"\u3164a\u115f\uffa0\u034f", "a", "a"},
		"private, no character": {"a\ue000\U0010ffff", "a\uFFFD\uFFFD", "a\uFFFD\uFFFD"},
		"wide space":            {"a\u3000b", "a b", "a\u3000b"},
	} {
		expect.Equal(t, Line(tc.in), tc.line, "%s: Line(%q)", name, tc.in)
		expect.Equal(t, Text(tc.in), tc.text, "%s: Text(%q)", name, tc.in)
	}
}

// TestManySequences checks that the beginning of one sequence ends the search for the end of the
// one before: else the time would grow with the square of the text.
func TestManySequences(t *testing.T) {
	for _, start := range []string{"\x1b]", "\u0090", "\u0098", "\u009d", "\u009e", "\u009f"} {
		text := strings.Repeat(start, 100)
		expect.Equal(t, sequence(text), len(start), "%q: the first sequence has … bytes", text[:20])
	}
	expect.Equal(t, sequence("\u009dabc\u009dabc"), len("\u009dabc"), "the first sequence has … bytes")
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\ttext\r\n":                 "plain\n\ttext\r\n",
		"a\u202eb\U000E0041c\u200bd\u00ade": "abcde",
		"a\x1b[31mb\u009b":                  "a[31mb",
		"می\u200cخواهم 👨\u200d👩 ❤\ufe0f Größe\u00a0\ue000": "می\u200cخواهم 👨\u200d👩 ❤\ufe0f Größe\u00a0\ue000",
	} {
		expect.Equal(t, Visible(in), want, "Visible(%q)", in)
	}
}

// JSON with hidden characters has the same value without them.
func TestJSON(t *testing.T) {
	value := "a\x1b\u009b\u202e\U000E0041\u200b\x7f\u2028 é 👨\u200d👩"
	var in bytes.Buffer
	e := json.NewEncoder(&in)
	e.SetIndent("", "  ")
	expect.OK(t, e.Encode([]string{value}))
	out := JSON(in.Bytes())
	var got []string
	if err := json.Unmarshal(out, &got); err != nil || len(got) != 1 || got[0] != value {
		t.Errorf("%s is %q, %v", out, got, err)
	}
	expect.Equal(t, string(out), "[\n  \"a\\u001b\\u009b\\u202e\\udb40\\udc41\\u200b\\u007f\\u2028 é 👨\u200d👩\"\n]\n", "%q", out)
	expect.Equal(t, string(JSON([]byte("a\xffb"))), `a\ufffdb`, "a byte that is not UTF-8")
}

// A Writer cleans across writes, and lets the program's own sequences through.
func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, func(sequence string) bool { return sequence == "\x1b[1m" })
	for _, part := range []string{"gr\xc3", "\xb6\xc3", "\x9f \x1b[1mbold\x1b[2J\u202e", "\xe2\x80", "\xae end\n"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	if got, want := out.String(), "größ \x1b[1mbold end\n"; got != want && got != strings.Replace(want, "größ", "größ", 1) {
		t.Errorf("%q, want %q", got, want)
	}
	out.Reset()
	NewEscaper(&out).Write([]byte("log \x1b[2J {\"name\":\"\u202e\"}\n"))
	expect.Equal(t, out.String(), "log \\u001b[2J {\"name\":\"\\u202e\"}\n")
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b]52;c;x\a\u202e\U000E0041b\n\u200d")
	f.Add("\x1b\x1b[\u009b\x90\u0090x\u009c")
	f.Fuzz(func(t *testing.T, s string) {
		line, text := Line(s), Text(s)
		for _, got := range []string{line, text} {
			if strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "").Replace(got), isControl) || !utf8.ValidString(got) {
				t.Errorf("%q becomes %q", s, got)
			}
		}
		if Line(line) != line || Text(text) != text {
			t.Errorf("%q becomes %q, and that %q", s, text, Text(text))
		}
		if seen := Visible(s); Visible(seen) != seen {
			t.Errorf("%q is %q for a model, and that %q", s, seen, Visible(seen))
		}
		if utf8.ValidString(s) {
			quoted, _ := json.Marshal(s)
			var back string
			if json.Unmarshal(JSON(quoted), &back) != nil || back != s {
				t.Errorf("%q is %q as JSON", s, JSON(quoted))
			}
		}
	})
}
