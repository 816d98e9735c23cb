package console

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestTable(t *testing.T) {
	rows := []Row{
		{{Text: "NAME"}, {Text: "N", Right: true}, {Text: "SAYS"}},
		{{Text: "a"}, {Text: "12", Right: true}, {Text: ""}},
		{{Text: "日本"}, {Text: "", Right: true}, {Text: "what a long story it is"}},
		{{Text: "evil\x1b[2J\u202e\n\x07"}, {Text: "3", Right: true}, {Text: "e\u0301"}},
	}
	for _, tc := range []struct {
		columns int
		want    string
	}{
		{0, "NAME    N  SAYS\na      12\n日本       what a long story it is\nevil    3  e\u0301"},
		{30, "NAME    N  SAYS\na      12\n日本       what a long story …\nevil    3  e\u0301"},
		{14, "NAME    N  SA…\na      12\n日本       wh…\nevil    3  e\u0301"},
	} {
		got := strings.Join(Table(rows, tc.columns, false), "\n")
		expect.Equal(t, got, tc.want, "%d columns", tc.columns)
	}
	spare := []Row{
		{{Text: "NAME"}, {Text: "KIND", Spare: true}, {Text: "PID", Spare: true}, {Text: "SAYS"}},
		{{Text: "a"}, {Text: "kind"}, {Text: "1234"}, {Text: strings.Repeat("x", 50)}},
	}
	for columns, want := range map[int]string{
		70: "a     kind  1234  " + strings.Repeat("x", 50), 58: "a     kind  1234  " + strings.Repeat("x", 39) + "…",
		57: "a     kind  " + strings.Repeat("x", 44) + "…", 51: "a     " + strings.Repeat("x", 44) + "…", 20: "a     xxxxxxxxxxxxx…",
	} {
		expect.Equal(t, Table(spare, columns, false)[1], want, "spare columns in %d", columns)
	}
	coloured := Table([]Row{{{Text: "a", Colour: Red}, {Text: "b"}}}, 0, true)
	if want := "\x1b[31ma\x1b[0m  b"; coloured[0] != want || Width(coloured[0]) != 4 {
		t.Errorf("coloured %q", coloured)
	}
	expect.Equal(t, len(Table(nil, 10, true)), 0, "a table of nothing")
}

func TestWidth(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "日本": 4, "e\u0301": 1, "…": 1, "\x1b[1;31mab\x1b[0m": 2, "⠋": 1, "😀": 2} {
		expect.Equal(t, Width(text), want, "%q takes", text)
	}
	for text, want := range map[string]string{"abc": "abc", "abcdef": "abc…", "日本語": "日…"} {
		expect.Equal(t, Cut(text, 4), want, "%q is cut to", text)
	}
}

func TestPlainTerminal(t *testing.T) {
	expect.Equal(t, isPlain(nil, func(string) string { return "dumb" }), true, "TERM=dumb is plain")
}

// A tool's result has no control sequence on a terminal, and none that we write ourselves.
func TestResultsOnATerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil || !IsTerminal(terminal) {
		t.Skipf("there are no terminals here: %v", err)
	}
	defer terminal.Close()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	var shown bytes.Buffer
	c := New(nil, terminal, io.Discard)
	c.written.w = &shown
	fmt.Fprint(c.Results(), "\x1b[2mfaint\x1b[0m \x1b[32m✓\x1b[0m")
	expect.Equal(t, shown.String(), "faint ✓", "the result")
}

func TestElapsed(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Second: "0 s", 99 * time.Second: "99 s", 125 * time.Second: "2:05", 61 * time.Minute: "61:00"} {
		expect.Equal(t, Elapsed(d), want, "%s", d)
	}
}

// However little room there is, nothing is wider, and nothing moves the cursor.
func FuzzTable(f *testing.F) {
	f.Add("a\x1b[31m", "日本語", 7)
	f.Fuzz(func(t *testing.T, a, b string, columns int) {
		if columns < 1 || columns > 500 {
			return
		}
		rows := []Row{{{Text: a}, {Text: b}}, {{Text: b}, {Text: a, Right: true}}, {{Text: "x"}}}
		got := Table(rows, columns, false)
		for _, line := range got {
			// A column is at least one wide, and the gap two.
			if w := Width(line); w > max(columns, 4) || strings.ContainsAny(line, "\x1b\n\r\x07\u202e") {
				t.Errorf("%q takes %d of %d", line, w, columns)
			}
		}
	})
}
