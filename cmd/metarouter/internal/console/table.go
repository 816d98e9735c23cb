package console

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	prettytext "github.com/jedib0t/go-pretty/v6/text"

	"github.com/mcp-metarouter/metarouter/internal/plain"
)

// A Colour is one of a terminal's own.
type Colour string

// Colours. The zero value is the terminal's usual one.
const (
	Plain  Colour = ""
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Cyan   Colour = "36"
	Faint  Colour = "2"
	Bold   Colour = "1"
)

// A Cell is one of a row. Its text may come from anywhere: characters that could move the cursor
// is left out.
type Cell struct {
	Text   string
	Colour Colour
	Right  bool // aligned
	Spare  bool // the column is left out if the table is too wide with it
}

// A Row is a line of a table.
type Row []Cell

// gap is between columns.
const gap = "  "

// Table lays out the rows in at most so many columns of the terminal and lines; 0 is
// any number. Of too many rows the last line counts the rest. If they are too wide, spare
// columns are left out, the last of them first, until the last column has room; then
// texts are cut, in the last column first.
func Table(rows []Row, columns, lines int, colour bool) []string {
	more := 0
	if lines > 0 && len(rows) > lines {
		more = len(rows) - lines + 1
		rows = rows[:lines-1]
	}
	var widths []int
	var spare []bool
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths, spare = append(widths, 0), append(spare, false)
			}
			widths[i] = max(widths[i], Width(plain.Line(cell.Text)))
			spare[i] = spare[i] || cell.Spare
		}
	}
	if columns > 0 {
		leaveOut(widths, spare, columns)
		fit(widths, columns)
	}
	out := layOut(rows, widths, colour)
	if more > 0 {
		rest := fmt.Sprintf("… and %d more", more)
		if columns > 0 {
			rest = Cut(rest, columns)
		}
		out = append(out, rest)
	}
	return out
}

const (
	// leastColumn is how narrow a column is made for others to have room.
	leastColumn = 8

	// roomyColumn is how wide the last column can be before a spare one is shown.
	roomyColumn = 40
)

// taken returns how many columns of the terminal the widths take; a column of width 0 is
// not shown.
func taken(widths []int) int {
	total := -len(gap)
	for _, w := range widths {
		if w > 0 {
			total += w + len(gap)
		}
	}
	return total
}

// leaveOut leaves spare columns out, the last one first, until the last column of the table
// has room.
func leaveOut(widths []int, spare []bool, columns int) {
	if len(widths) == 0 {
		return
	}
	last := len(widths) - 1
	cut := max(0, widths[last]-roomyColumn)
	for i, isSpare := range slices.Backward(spare) {
		if taken(widths)-cut <= columns {
			return
		}
		if isSpare {
			widths[i] = 0
		}
	}
}

// fit makes the columns narrower until they fit: the last one as far as it goes, then
// the widest of the others.
func fit(widths []int, columns int) {
	over := func() int { return taken(widths) - columns }
	shrink := func(i, least int) {
		if by := min(over(), widths[i]-least); by > 0 {
			widths[i] -= by
		}
	}
	if len(widths) == 0 {
		return
	}
	last := len(widths) - 1
	shrink(last, leastColumn)
	for over() > 0 {
		widest := 0
		for i := range widths {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= 1 {
			return
		}
		widths[widest]--
	}
}

// layOut returns a line for each row, without the columns of width 0.
func layOut(rows []Row, widths []int, colour bool) []string {
	if len(rows) == 0 {
		return nil
	}
	t := table.NewWriter()
	t.SetStyle(table.Style{Box: table.BoxStyle{MiddleVertical: gap}, Options: table.Options{SeparateColumns: true}})
	t.SuppressTrailingSpaces()
	configs := make([]table.ColumnConfig, len(widths))
	for i, w := range widths {
		configs[i] = table.ColumnConfig{Number: i + 1, Hidden: w == 0}
	}
	for _, row := range rows {
		cells := make(table.Row, len(row))
		for i, cell := range row {
			cells[i] = Paint(Cut(plain.Line(cell.Text), widths[i]), cell.Colour, colour)
			if cell.Right {
				configs[i].Align = prettytext.AlignRight
			}
		}
		t.AppendRow(cells)
	}
	t.SetColumnConfigs(configs)
	return strings.Split(t.Render(), "\n")
}

// Paint returns the text in the colour, as it is without colours.
func Paint(text string, c Colour, colour bool) string {
	if !colour || c == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// IsPaint reports whether Paint writes the control sequence.
func IsPaint(sequence string) bool {
	code, ok := strings.CutPrefix(sequence, "\x1b[")
	code, ends := strings.CutSuffix(code, "m")
	return ok && ends && (code == "0" || slices.Contains([]Colour{Red, Green, Yellow, Cyan, Faint, Bold}, Colour(code)))
}

// Width returns how many columns the text takes. Sequences that Paint writes count as 0.
func Width(text string) int { return prettytext.StringWidthWithoutEscSequences(text) }

// Cut returns as much of a plain text as so many columns hold, with an ellipsis if that
// is not all.
func Cut(text string, columns int) string { return prettytext.Snip(text, columns, "…") }

// Hang breaks a text into lines of at most so many columns. The first line begins with
// lead, and the others are indented by its width. 0 columns break nothing.
func Hang(lead, text string, columns int) (lines []string) {
	indent := strings.Repeat(" ", Width(lead))
	line, empty := lead, true
	for _, word := range strings.Fields(plain.Line(text)) {
		if !empty && columns > 0 && Width(line)+1+Width(word) > columns {
			lines = append(lines, line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return append(lines, line)
}
