package console

import (
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

// roomyColumn is how wide the last column can be before a spare one is shown.
const roomyColumn = 40

// Table lays out the rows in at most so many columns of the terminal; 0 is any number. If
// they are too wide, spare columns are left out, the last of them first, until the last
// column has room; then lines are cut.
func Table(rows []Row, columns int, colour bool) []string {
	t := table.NewWriter()
	t.SetStyle(table.Style{Box: table.BoxStyle{MiddleVertical: "  "}, Options: table.Options{SeparateColumns: true}})
	t.SuppressTrailingSpaces()
	t.SuppressEmptyColumns()
	var configs []table.ColumnConfig
	var spare []bool
	for _, row := range rows {
		cells := make(table.Row, len(row))
		for i, cell := range row {
			if i == len(configs) {
				configs, spare = append(configs, table.ColumnConfig{Number: i + 1}), append(spare, false)
			}
			cells[i] = Paint(plain.Line(cell.Text), cell.Colour, colour)
			if cell.Right {
				configs[i].Align = prettytext.AlignRight
			}
			spare[i] = spare[i] || cell.Spare
		}
		t.AppendRow(cells)
	}
	var out []string
	render := func(last int) (width int) {
		configs[len(configs)-1].WidthMax = last
		t.SetColumnConfigs(configs)
		out = strings.Split(t.Render(), "\n")
		for _, line := range out {
			width = max(width, Width(line))
		}
		return width
	}
	if len(configs) > 0 {
		for i, isSpare := range slices.Backward(spare) {
			configs[i].Hidden = isSpare && columns > 0 && render(roomyColumn) > columns
		}
		render(0)
	}
	for i := range out {
		out[i] = Cut(out[i], columns)
	}
	return out
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

// Cut returns as much of a text as so many columns hold, with an ellipsis if that
// is not all; 0 is no limit.
func Cut(text string, columns int) string { return prettytext.Snip(text, columns, "…") }

// hang breaks a text into lines of at most so many columns, as [Console.SayBroken] has them. 0 columns break nothing.
func hang(lead, text string, columns int) (lines []string) {
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
