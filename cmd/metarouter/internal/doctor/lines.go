package doctor

import (
	"slices"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

// PinOnce returns the diagnosis with the advice to pin versions at the first server alone; pinning says that they are
// being pinned, so that it is left out.
func (d Diagnosis) PinOnce(pinning bool) Diagnosis {
	d.Findings = slices.Clone(d.Findings)
	for i, f := range d.Findings {
		if f.Fix == pinAdvice && pinning {
			d.Findings[i].Fix = ""
		}
		pinning = pinning || f.Fix == pinAdvice
	}
	return d
}

// severities are the marks of findings on a terminal.
var severities = map[Severity]struct {
	mark   string
	colour console.Colour
}{
	Broken: {"✗", console.Red}, Warning: {"!", console.Yellow}, Note: {"·", console.Faint},
}

// Lines returns the findings server by server: the problem, and under it the fix.
// Lines have at most the given number of columns; 0 is no limit.
func (d Diagnosis) Lines(columns int, colours bool) (lines []string) {
	for i, f := range d.Findings {
		if i == 0 || d.Findings[i-1].Server != f.Server {
			if i > 0 {
				lines = append(lines, "")
			}
			about := f.Server
			if about == "" {
				about = "in general"
			}
			lines = append(lines, console.Paint(plain.Line(about), console.Bold, colours))
		}
		s := severities[f.Severity]
		lines = append(lines, console.Hang("  "+console.Paint(s.mark, s.colour, colours)+" ", f.Problem, columns)...)
		for _, printed := range f.Details {
			lines = append(lines, console.Hang("      "+console.Paint("|", console.Faint, colours)+" ", printed, columns)...)
		}
		if f.Fix != "" {
			lines = append(lines, console.Hang("    → ", f.Fix, columns)...)
		}
	}
	if len(lines) > 0 {
		lines = append(lines, "")
	}
	verdict := console.Red
	if d.OK {
		verdict = console.Green
	}
	return append(lines, console.Paint(d.Verdict, verdict, colours))
}
