package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/classify"
)

// Search prints the tools that fit the words, with the parts of their scores if they are to be explained.
func Search(ctx context.Context, e *Env, words string, in admin.ToolsRequest, explain bool) error {
	if words == "" && len(in.Capabilities) == 0 {
		return console.Usage(errors.New("nothing to search for; write words, or -c with a capability tag, such as -c browser"))
	}
	if in.Limit < 1 {
		return console.Usage(fmt.Errorf("-k %d is too small; write 1 or more", in.Limit))
	}
	in.Words = &words
	return show(ctx, e, need{asClient: true}, "/dashboard/tools", in, func(found admin.Tools) error {
		var rows []admin.Candidate
		for i := range found.Tools {
			if !explain {
				found.Tools[i].Why = nil
			}
			rows = append(rows, found.Tools[i].Candidate)
		}
		if found.Abstained {
			rows = rows[:min(len(rows), maxNearest)]
			found.Tools, found.Nearest = []admin.Tool{}, found.Tools[:len(rows)]
		}
		err := printFound(e, found, rows)
		if err == nil && found.Abstained {
			err = &console.Error{Code: console.NoTool}
		}
		return err
	})
}

// maxNearest is how many tools are named as the nearest where no tool fits.
const maxNearest = 3

// printFound prints the tools found, with the parts of their scores where rows have them.
func printFound(e *Env, found admin.Tools, rows []admin.Candidate) error {
	if e.JSON {
		return e.PrintJSON(found)
	}
	if !found.Sure {
		fmt.Fprintln(e.Err, verdict(found.Abstained, len(rows) > 0))
	}
	return printCandidates(e, rows)
}

// verdict returns the line that stands above tools that are not a sure answer.
func verdict(abstained, some bool) string {
	switch {
	case !some:
		return "no tool fits"
	case abstained:
		return "no tool fits; the nearest:"
	}
	return "no tool is a sure match; try other words, or one of the nearest:"
}

// shownConfidence returns a confidence as tables show it: a dash for 0.
func shownConfidence(confidence float64) string {
	if confidence < 0.01 {
		return "–"
	}
	return admin.Confidence(confidence)
}

// alsoOn says which other servers have a tool, after its ID; places are as in [admin.Candidate].
func alsoOn(places []string) string {
	if len(places) < 2 {
		return ""
	}
	return " (also on " + strings.Join(places[1:], ", ") + ")"
}

// printCandidates prints a row for each tool, with the parts of its score below it if it
// has them.
func printCandidates(e *Env, tools []admin.Candidate) error {
	rows := make([]console.Row, len(tools))
	for i, c := range tools {
		rows[i] = append(console.Row{{Text: shownConfidence(c.Confidence), Right: true}}, toolCells(c.ID+alsoOn(c.Places), c.Capabilities, c.Description)...)
	}
	columns, _ := e.Page()
	return e.PrintRows(rows, func(i int) string {
		why := tools[i].Why
		if why == nil {
			return ""
		}
		text := "its score is made of " + admin.Shares(*why)
		if len(why.Missing) > 0 {
			text += "; words that it does not have: " + strings.Join(why.Missing, ", ")
		}
		return console.Lines(console.Hang("      ", text, columns))
	})
}

func toolCells(name string, capabilities []string, description string) console.Row {
	return console.Row{{Text: name}, {Text: strings.Join(capabilities, " "), Spare: true}, {Text: summary(description), Colour: console.Faint}}
}

// summary returns the first sentence or line of a description, cut after 60 characters.
func summary(description string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(description), "\n")
	if i := strings.Index(line, ". "); i > 0 {
		line = line[:i+1]
	}
	return console.Cut(line, 60)
}

// Classify sorts a text into one of the categories, and prints it.
func Classify(ctx context.Context, e *Env, text string) error {
	if strings.TrimSpace(text) == "" {
		return console.Usage(errors.New(`the text is empty; write at least one word: metarouter classify "TEXT"`))
	}
	return show(ctx, e, need{asClient: true}, "/dashboard/classify", admin.ClassifyRequest{Text: text}, func(answer admin.Classified) error {
		if e.JSON {
			return e.PrintJSON(answer.Outcome)
		}
		return printCategory(e, answer.Outcome, answer.Categories)
	})
}

func printCategory(e *Env, o classify.Outcome, categories []string) error {
	const most = 10 // categories that are printed
	reasoning := "without reasoning"
	if o.UseReasoning {
		reasoning = "with reasoning"
	}
	e.Say("%s (confidence %.2f): model %s, %s", o.Category, o.Confidence, o.Model, reasoning)
	var rows []console.Row
	for i, p := range o.Probabilities {
		rows = append(rows, console.Texts(fmt.Sprintf("%.3f", p), categories[i]))
	}
	slices.SortStableFunc(rows, func(a, b console.Row) int { return strings.Compare(b[0].Text, a[0].Text) })
	return e.PrintRows(rows[:min(len(rows), most)], nil)
}

// Why prints why a tool is offered or not, and where it ranks for a task if there is one.
func Why(ctx context.Context, e *Env, tool, task string) error {
	return show(ctx, e, need{}, "/dashboard/why", admin.WhyRequest{Tool: tool, Task: task}, func(answer admin.Reasons) (err error) {
		if e.JSON {
			err = e.PrintJSON(answer)
		} else {
			verdict := "is not offered"
			if answer.Offered {
				verdict = "is offered"
			}
			e.Say("%s %s.", answer.Tool, verdict)
			for _, reason := range answer.All {
				e.SayBroken("  - ", e.Files.Advise(reason))
			}
		}
		if err == nil && !answer.Offered {
			err = &console.Error{Code: console.NoTool}
		}
		return err
	})
}
