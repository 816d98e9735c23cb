package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

// maxToolLines is the largest number of lines of tools that are printed.
const maxToolLines = 40

// Lines returns the plan as the lines of a diff, for a person. started says that the
// servers with unknown tools were started.
func (p Plan) Lines(started, colours bool) []string {
	line := func(mark, text string) string {
		colour := map[string]terminal.Colour{"+": terminal.Green, "-": terminal.Red, "~": terminal.Yellow}[mark]
		return "  " + terminal.Paint(mark+" "+plain.Line(text), colour, colours)
	}
	var servers, settings []string
	for _, name := range p.Servers.Added {
		servers = append(servers, line("+", name+"  "+strings.Join(p.Details[name], ", ")))
	}
	for _, name := range p.Servers.Removed {
		servers = append(servers, line("-", name))
	}
	for _, name := range p.Servers.Changed {
		servers = append(servers, line("~", name+"  "+strings.Join(p.Details[name], ", ")))
	}
	tools := p.toolLines(line)
	if more := len(tools) - maxToolLines; more > 0 {
		tools = append(tools[:maxToolLines], fmt.Sprintf("  … and %d more (--json has them all)", more))
	}
	for _, change := range p.Settings {
		settings = append(settings, line("~", change))
	}
	for _, key := range p.Restart {
		settings = append(settings, line("~", key+" takes effect at the router's next start"))
	}
	var lines []string
	section := func(title string, of []string) {
		if len(of) > 0 {
			lines = append(append(lines, title), of...)
		}
	}
	section("servers", servers)
	section("tools", tools)
	section("settings", settings)
	if len(lines) == 0 {
		lines = append(lines, "nothing would change")
	}
	least := ""
	if len(p.Unknown) > 0 {
		hint := "tools unknown until started; use --start"
		if started {
			hint = "tools unknown, since they do not start; 'metarouter doctor --config FILE' says why"
		}
		lines = append(lines, plain.Line("  ? "+strings.Join(p.Unknown, ", "))+": "+hint)
		least = "at least "
	}
	return append(lines, fmt.Sprintf("the tool list costs %d tokens now and %s%d with FILE%s", p.Tokens.Before, least, p.Tokens.After, p.Mode))
}

func (p Plan) toolLines(line func(mark, text string) string) (lines []string) {
	for _, id := range p.Tools.Added {
		if slices.Contains(p.Named, id) {
			lines = append(lines, line("+", id+"  (its tokens are unknown until its server is started; use --start)"))
			continue
		}
		lines = append(lines, line("+", id+exposedAs(id, p.After)))
	}
	for _, id := range p.Tools.Removed {
		lines = append(lines, line("-", id+exposedAs(id, p.Before)))
	}
	for _, r := range p.Tools.Renamed {
		lines = append(lines, line("~", fmt.Sprintf("%s  %s → %s", r.ID, r.From, r.To)))
	}
	return lines
}

// exposedAs says under which name clients see a tool, unless it is server__tool.
func exposedAs(id string, names map[string]string) string {
	if exposed := names[id]; exposed != strings.Replace(id, ":", "__", 1) {
		return "  as " + exposed
	}
	return ""
}
