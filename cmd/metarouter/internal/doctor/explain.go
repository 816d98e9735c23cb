package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// An output is a server that failed, with the text that its program printed before.
type output struct {
	world     World
	entry     config.Server
	fault     *status.Fault
	stray     int64 // lines on stdout that are no messages
	strayLine string
	lines     []string
}

// explain returns the first cause that applies, else the last one. printed says that a line of the program shows it.
func (o output) explain() (problem, fix string, printed bool) {
	for _, c := range causes {
		if c.printed == nil && c.kind == o.fault.Kind && (c.when == nil || c.when(o, "")) {
			return o.sentences(c, nil)
		}
		if c.printed == nil {
			continue
		}
		for _, line := range slices.Backward(o.lines) { // the cause is usually near the end
			line = plain.Line(line)
			if m := c.printed().FindStringSubmatch(line); m != nil && (c.when == nil || c.when(o, group(m))) {
				m[0] = line
				return o.sentences(c, m)
			}
		}
	}
	return o.sentences(causes[len(causes)-1], nil)
}

// group returns the first group of a match that is not empty.
func group(m []string) string {
	return cmp.Or(append(slices.Clone(m[1:]), "?")...)
}

var (
	shortPath  = lazy.Regexp(`^(?:(?:/usr)?/s?bin(?::|$))+$`) // with folders of the system only, of programs that are started from a menu
	noVariable = lazy.Regexp(`^[0-9]|\W`)
	// variable matches the name of a variable, as servers use them.
	variable = lazy.Regexp(`\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b`)
)

// sentences returns what explain does for a cause that applies, with its names in braces replaced. m is the match of a printed
// line, which is its first element; nil without one. {1} is the first group that is not empty, and {2} the second group.
func (o output) sentences(c cause, m []string) (problem, fix string, printed bool) {
	values := o.values()
	if m != nil {
		one := group(m)
		var unset, pairs []string // of all variables in the line that are not set
		for _, n := range variable().FindAllString(m[0], -1) {
			if _, set := o.entry.Env[n]; !set && !slices.Contains(unset, n) {
				unset, pairs = append(unset, n), append(pairs, fmt.Sprintf(`%q: "${%s}"`, n, n))
			}
		}
		all, noun := strings.Join(unset, ", "), "variable "
		if len(unset) > 1 {
			noun = "variables "
		}
		values = append(values, "{1}", one, "{2}", m[min(2, len(m)-1)], "{names}", all, "{variables}", noun+all, "{pairs}", strings.Join(pairs, ", "),
			"{line}", console.Cut(one, 120), "{url}", strings.NewReplacer("0.0.0.0", "127.0.0.1", "[::]", "127.0.0.1").Replace(one),
			"{module}", strings.ReplaceAll(strings.Split(one, ".")[0], "_", "-"), "{install}", cmp.Or(installers[one], "install "+one))
	}
	names := strings.NewReplacer(values...)
	return names.Replace(c.problem), names.Replace(c.fix), m != nil
}

// program returns the command of the fault, without secrets.
func (o output) program() string {
	return strings.Join(secret.Words(strings.Fields(o.fault.Command), "…"), " ")
}

func (o output) path() string {
	if !filepath.IsAbs(o.program()) && o.entry.Cwd != "" {
		return filepath.Join(o.entry.Cwd, o.program())
	}
	return o.program()
}

// like returns a program that usually starts servers, with a similar name; "" if there is none.
func (o output) like() string {
	like, _ := prose.Nearest(o.program(), slices.Sorted(maps.Keys(installers)))
	if like == o.program() {
		return ""
	}
	return like
}

// silent reports whether the program ended without an error and without a message.
func (o output) silent() bool { return o.fault.Code == 0 && o.fault.Signal == "" && !o.fault.Spoke }

// ended says when and how the process ended.
func (o output) ended() string {
	f, when, where, reason := o.fault, "after "+short(o.fault.After), "", "; it printed the lines below"
	if f.After < 3*time.Second {
		when = "at once"
	}
	how := fmt.Sprintf("with status %d", f.Code)
	if f.Signal != "" {
		how = "by " + f.Signal
	} else if o.silent() {
		how = "without an error and without an MCP message"
	}
	if f.Listing {
		where = ", after metarouter requested the list of its tools"
	}
	if len(f.Said) == 0 {
		reason = ", and printed no reason"
	}
	return fmt.Sprintf("it ended %s %s%s%s.", when, how, where, reason)
}

// values returns what names in braces stand for, of a failure.
func (o output) values() []string {
	f, path := o.fault, "the PATH"
	if o.entry.Env["PATH"] != "" {
		path = `the PATH of its "env"`
	}
	install := fmt.Sprintf(`install it; if "which %s" finds it in a terminal ("where %[1]s" on Windows), write the path that this prints as "command"`, o.program())
	address, host := BareURL(o.entry)
	script := append(strings.Fields(interpreters[filepath.Ext(o.path())]), o.path())
	return []string{
		"{package}", o.fetched(), "{bare}", commandline.Bare(o.fetched()), "{command}", o.entry.Command,
		"{program}", o.program(), "{path}", o.path(), "{here}", o.world.Folder, "{like}", o.like(), "{PATH}", path + " (" + f.Path + ")",
		"{installed}", cmp.Or(installers[o.program()], install), "{interpreter}", script[0], "{script}", quoted(append(script[1:], o.entry.Args...)),
		"{message}", f.Message, "{quoted}", strconv.Quote(console.Cut(f.Message, 80)), "{cwd}", f.Folder, "{rerun}", o.rerun(), "{hand}", byHand(o.entry), "{ended}", o.ended(),
		"{doing}", f.Doing, "{after}", short(f.After), "{longer}", fmt.Sprintf(`"startTimeout": "%.0fm"`, max(3, 2*f.After.Minutes())), "{example}", example(o.strayLine),
		"{code}", strconv.Itoa(f.Code), "{protocol}", strconv.Quote(f.Protocol), "{secret}", cmp.Or(f.Command, "correct the reference in its entry, or what it names"),
		"{server}", commandline.Quote(plain.Line(o.entry.Name)), "{variable}", strings.ToUpper(noVariable().ReplaceAllString(o.entry.Name, "_")) + "_TOKEN",
		"{host}", host, "{address}", address,
		"{transport}", strconv.Quote(string(o.entry.Transport)), "{login}", f.Login.Text(), "{issuer}", cmp.Or(f.Issuer, "its issuer"),
	}
}

// installers says how to install the programs that usually start servers.
var installers = map[string]string{
	"npx":     "install Node.js, which brings npx: https://nodejs.org",
	"npm":     "install Node.js, which brings npm: https://nodejs.org",
	"node":    "install Node.js: https://nodejs.org",
	"uvx":     "install uv, which brings uvx: curl -LsSf https://astral.sh/uv/install.sh | sh",
	"uv":      "install uv: curl -LsSf https://astral.sh/uv/install.sh | sh",
	"python":  `install Python, or write "command": "python3": on many systems, Python exists only under the name python3`,
	"python3": "install Python: https://www.python.org/downloads",
	"docker":  "install Docker: https://docs.docker.com/get-docker",
	"podman":  "install Podman: https://podman.io",
	"bun":     "install Bun: curl -fsSL https://bun.sh/install | bash",
	"bunx":    "install Bun, which brings bunx: curl -fsSL https://bun.sh/install | bash",
	"deno":    "install Deno: curl -fsSL https://deno.land/install.sh | sh",
	"go":      "install Go: https://go.dev/dl",
}

// interpreters says which program runs a file, by the extension of its name.
var interpreters = map[string]string{".py": "python3", ".js": "node", ".mjs": "node", ".cjs": "node", ".sh": "sh", ".rb": "ruby", ".php": "php", ".jar": "java -jar", ".ts": "npx tsx"}

// fetched names the packages that the entry fetches.
func (o output) fetched() string {
	if len(o.fault.Fetches) > 0 {
		return strings.Join(o.fault.Fetches, ", ")
	}
	for _, arg := range o.entry.Args {
		if !strings.HasPrefix(arg, "-") {
			return arg
		}
	}
	return "of that name"
}
