package doctor

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/plain"
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
	line      string // the line that a pattern matches
}

// A pattern recognises a message of another program that fails, and explains it.
// The first pattern of the table that matches a line counts, so causes come before their
// consequences.
type pattern struct {
	line         func() *regexp.Regexp
	problem, fix string // with names in braces, as output.fill has them

	// explain, if it is not nil, takes the place of problem and fix. It returns "" if the pattern
	// does not apply.
	explain func(o output, m []string) (problem, fix string)

	applies func(o output, group string) bool // nil for always
}

// explainPrinted looks the output up in the table.
func explainPrinted(o output) (problem, fix string, ok bool) {
	var lines []string
	for _, line := range o.lines {
		lines = append(lines, plain.Line(line))
	}
	for _, p := range patterns {
		for _, line := range slices.Backward(lines) { // the cause is usually near the end
			m := p.line().FindStringSubmatch(line)
			if m == nil || p.applies != nil && !p.applies(o, group(m)) {
				continue
			}
			if p.explain == nil {
				return o.fill(p.problem, m), o.fill(p.fix, m), true
			}
			o.line = line
			if problem, fix = p.explain(o, m); problem != "" {
				return problem, fix, true
			}
		}
	}
	return "", "", false
}

// group returns the first group of a match that is not empty.
func group(m []string) string {
	for _, text := range m[1:] {
		if text != "" {
			return text
		}
	}
	return "?"
}

// fill replaces names in braces, of a pattern if m is its match: 1 is the first group that is not empty, and 2 is the
// second group.
func (o output) fill(text string, m []string) string {
	pairs := []string{"{package}", o.fetched(), "{bare}", bareName(o.fetched()), "{command}", o.entry.Command}
	if m == nil {
		return strings.NewReplacer(append(pairs, o.values()...)...).Replace(text)
	}
	one := group(m)
	return strings.NewReplacer(append(pairs, "{1}", one, "{2}", m[min(2, len(m)-1)],
		"{line}", console.Cut(one, 120), "{url}", strings.NewReplacer("0.0.0.0", "127.0.0.1", "[::]", "127.0.0.1").Replace(one),
		"{module}", strings.ReplaceAll(strings.Split(one, ".")[0], "_", "-"), "{install}", cmp.Or(installers[one], "install "+one))...).Replace(text)
}

// The fixes of several patterns.
const (
	notOnPath   = "a script of the server needs \"{1}\", which is not on its PATH."
	olderPython = "it does not fit the installed version of the MCP library for Python, which is probably too new."
)

// The lines of several patterns.
var (
	noModule  = lazy.Regexp(`Cannot find (?:module|package) '([^']+)'`)
	mcpPython = lazy.Regexp(`^ImportError: cannot import name '\w+' from 'mcp['.]|^ModuleNotFoundError: No module named 'mcp\.|^AttributeError: '(?:Server|FastMCP)' object has no attribute`)
)

var patterns = []pattern{
	// npm and npx.
	{line: lazy.Regexp(`npx canceled due to missing packages and no YES option`),
		problem: `npx may not fetch {package} without a question, since npm's setting "yes" is false.`, fix: `add "-y" to "args", as the first`},
	{line: lazy.Regexp(`code E404\b|404 Not Found - GET .*registry|is not in (this|the npm) registry`),
		problem: "npm does not find the package {package}: the name is wrong, or the package is private.",
		fix:     `correct the name in "args" (see https://www.npmjs.com; "npm view {bare}" fails if no package has that name); for a private package, run "npm login"`},
	{line: lazy.Regexp(`code (ETARGET|ENOVERSIONS)\b|No matching version found for`),
		problem: "the package {package} has no such version.", fix: `"npm view {bare} versions" lists the versions; write one of them, or {bare}@latest`},
	{line: lazy.Regexp(`could not determine executable to run`),
		problem: "the package {package} has no program to run, or has several.", fix: `is it an MCP server? If so, name its program: "args": ["-y", "-p", "{package}", "its-program"]`},
	{line: lazy.Regexp(`code E40[13]\b|code ENEEDAUTH`),
		problem: "npm's registry denies you access to {package}.", fix: `run "npm login", or write a token with read access into ~/.npmrc`},
	{line: lazy.Regexp(`code (ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ERR_SOCKET_TIMEOUT|ENETUNREACH)\b`),
		problem: "npm can't reach its registry ({1}).", fix: `is the network up? Behind a proxy, set HTTPS_PROXY, or "npm config set registry" to your company's`},
	{line: lazy.Regexp(`code (SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_[A-Z_]+|CERT_[A-Z_]+|DEPTH_ZERO_SELF_SIGNED_CERT)`),
		problem: "npm does not trust the certificate of its registry: a proxy of your company may be between this machine and the registry.",
		fix:     "set NODE_EXTRA_CA_CERTS to the file of your company's certificate authority"},
	{line: lazy.Regexp(`root-owned files|EACCES: permission denied.*\.npm\b|code EACCES`),
		problem: "npm may not write into its own cache: files there belong to another user.", fix: `run: sudo chown -R "$(id -un)" ~/.npm`},
	{line: lazy.Regexp(`code ENOTEMPTY|code ECOMPROMISED|code EINTEGRITY`),
		problem: "npm's cache is damaged.", fix: "empty it: rm -rf ~/.npm/_npx && npm cache clean --force"},

	// uv.
	{line: lazy.Regexp(`(\S+) was not found in the package registry|there are no versions of (\S+?)\.?$|Because (\S+) was not found`),
		problem: "PyPI has no package {1}.", fix: `correct the name in "args" (https://pypi.org/project/{1} would be its page)`},
	{line: lazy.Regexp("An executable named `([^`]+)` is not provided by package `([^`]+)`"),
		problem: "the Python package has no program {1}.", fix: `name both: "args": ["--from", "{2}", …], with one of the programs that it has (see above)`},
	{line: lazy.Regexp(`No solution found when resolving`),
		problem: "uv finds no combination of versions of the package and its dependencies.", fix: `write the version of Python that it needs: "args": ["--python", "3.12", …]`},

	// docker.
	{line: lazy.Regexp(`Cannot connect to the Docker daemon|failed to connect to the docker API|docker daemon is not running|dockerDesktopLinuxEngine`),
		problem: "Docker is installed but does not run.", fix: "start Docker Desktop, or: sudo systemctl start docker"},
	{line: lazy.Regexp(`permission denied while trying to connect to the (?:Docker daemon|docker API)`),
		problem: "you may not use Docker.", fix: `run: sudo usermod -aG docker "$USER", and log in again`},
	{line: lazy.Regexp(`pull access denied for ([^\s,]+)|manifest for (\S+) not found|(?:Unable to find image|No such image:?) '?([^\s']+?)'? locally$`),
		problem: "Docker has no image {1}.", fix: "correct its name, or try by hand: docker pull {1}",
		applies: func(o output, _ string) bool { return o.fault.Kind != status.TimedOut }}, // then it is pulling it
	{line: lazy.Regexp(`the input device is not a TTY`), problem: "Docker expects a terminal, which a server does not have.", fix: `write "-i" instead of "-it" in "args"`},

	// Node.
	{line: lazy.Regexp(`EBADENGINE|Unsupported engine|requires a? ?Node(?:\.js)? version|(?i)node(?:\.js)? (?:version )?v?\d+(?:\.\d+)* (?:or (?:higher|later|newer|above) )?is required|unsupported node`),
		problem: "it needs another version of Node.", fix: "install the newest version (https://nodejs.org, or: nvm install --lts), and check it with 'node --version'"},
	{line: lazy.Regexp(`^SyntaxError: (?:Unexpected token|Unexpected identifier|Unexpected reserved word|The requested module .* does not provide)|^ReferenceError: (?:fetch|ReadableStream|File|WebSocket) is not defined|ERR_UNKNOWN_BUILTIN_MODULE`),
		problem: "Node does not understand its code: this version of Node is probably too old.",
		fix:     "check the version with 'node --version', and install the newest (https://nodejs.org, or: nvm install --lts)",
		applies: func(o output, _ string) bool { return !strings.Contains(filepath.Base(o.entry.Command), "py") }},
	{line: noModule,
		problem: "the file {1} does not exist.", fix: `correct the path in "args": absolute paths are the safest; if the server has to be built first, its README says how (npm install && npm run build)`,
		applies: func(o output, path string) bool {
			return slices.Contains(o.entry.Args, path) || strings.HasPrefix(path, "/") || filepath.IsAbs(path)
		}},
	{line: noModule, problem: `the module "{1}" is not installed.`, fix: "install what it needs: run npm install in the folder of the server"},
	{line: lazy.Regexp(`^(?:/usr/bin/)?env: ['‘"]?([^'’":]+)['’"]?: No such file or directory`),
		problem: `it is run by "{1}", which is not on its PATH.`, fix: `{install}; or write the absolute path of an existing program as "command"`},

	// Python.
	{line: mcpPython, problem: olderPython, fix: `ask uv for an older one: "args": ["--with", "mcp<2", …]`, applies: func(o output, _ string) bool { return o.entry.Command == "uvx" }},
	{line: mcpPython, problem: olderPython, fix: "install an older one into its environment: python -m pip install 'mcp<2'"},
	{line: lazy.Regexp(`^(?:ModuleNotFoundError|ImportError): No module named ['"]?([\w.]+)|: No module named ([\w.]+)$`),
		problem: "this Python does not have the module {1}.",
		fix:     `install it for the same Python: {command} -m pip install {module}; or write the path of the Python of the server's own environment (…/.venv/bin/python) as "command"`},
	{line: lazy.Regexp(`can't open file '([^']+)'`), problem: "the file {1} does not exist.", fix: `correct the path in "args": absolute paths are the safest`},

	// Shells.
	{line: lazy.Regexp(`^(?:\S*sh: )?(?:line )?(?:\d+: )?(\S+): (?:command )?not found$`), problem: notOnPath, fix: "{install}"},
	{line: lazy.Regexp(`'([^']+)' is not recognized as an internal or external command`), problem: notOnPath, fix: "{install}"},

	// Servers themselves.
	{line: lazy.Regexp(`EADDRINUSE|(?i)address already in use`), problem: "another program uses the port that it needs, perhaps another copy of the same server.",
		fix: "end the other program (a client may have started it), or give this server another port"},
	{line: lazy.Regexp(`\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b.*?(?i:is not set|not set|not provided|not defined|not found|is required|must be (?:set|provided)|missing|is undefined|is empty|required)`), explain: missingVariable},
	{line: lazy.Regexp(`(?i:missing|requires?|provide|please set|set the|must set|expected|undefined|specify|need)\b.*?\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b`), explain: missingVariable},
	{line: lazy.Regexp(`(?i)^\s*(?:error: )?(?:missing|the following) .*?required argument|(?:the following arguments are required|the following required arguments were not provided|missing required argument|provide .*\bargument)`),
		problem: "it needs arguments that its entry does not give.", fix: `read what it printed, and write the arguments into "args"`},
	{line: lazy.Regexp(`(?i)^\s*usage:? (?:: )?(.+)`),
		problem: "it does not understand its arguments, or needs more.", fix: `correct "args"; it prints: usage {line}`,
		applies: func(o output, _ string) bool { return o.fault.Kind == status.Exited }},
	{line: lazy.Regexp(`(?i)(?:listening|running|started|available|serving)\b.*?(https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\])(?::\d+)?[^\s"',)]*)`),
		problem: "it serves over HTTP instead of stdin and stdout.",
		fix:     `make it use stdio (often "args": ["stdio"] or "--transport", "stdio"), or run it yourself and write "url": "{url}" instead of "command"`,
		applies: func(o output, _ string) bool {
			return o.fault.Kind == status.TimedOut && o.entry.Transport == config.Stdio
		}},
	{line: lazy.Regexp(`EACCES: permission denied, \w+ '([^']+)'|PermissionError: .*?'([^']+)'|(\S+): Permission denied$`),
		problem: "it has no access to {1}.", fix: "check its owner (ls -ld {1}), and give access"},
}

func missingVariable(o output, m []string) (problem, fix string) {
	name := m[1]
	if strings.HasPrefix(name, "ERR_") {
		return "", ""
	}
	if _, set := o.entry.Env[name]; set {
		return fmt.Sprintf("it does not accept its variable %s.", name), fmt.Sprintf(`check the value of %s in its "env"`, name)
	}
	var names, pairs []string // of all variables in the line
	for _, n := range variable().FindAllString(o.line, -1) {
		if _, set := o.entry.Env[n]; !set && !slices.Contains(names, n) {
			names, pairs = append(names, n), append(pairs, fmt.Sprintf(`%q: "${%s}"`, n, n))
		}
	}
	noun := "variable"
	if len(names) > 1 {
		noun = "variables"
	}
	return fmt.Sprintf("it needs the %s %s, which it did not get: servers get only the variables that their entry names.", noun, strings.Join(names, ", ")),
		fmt.Sprintf(`write "env": {%s} into its entry, and set %s where the client is started, or in a file that "envFile" names`, strings.Join(pairs, ", "), strings.Join(names, ", "))
}

// variable matches the name of a variable, as servers use them.
var variable = lazy.Regexp(`\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b`)

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

// bareName is a package without its version.
func bareName(p string) string {
	if at := strings.LastIndex(p, "@"); at > 0 {
		return p[:at]
	}
	return p
}
