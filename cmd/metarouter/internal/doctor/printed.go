package doctor

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// An output is what a program printed before it failed.
type output struct {
	entry config.Server
	fault *status.Fault
	lines []string
	line  string // the line that a pattern matches
}

// A pattern recognises what other programs print when they fail, and says what it means.
// The first pattern of the table that matches a line counts, so causes come before their
// consequences.
type pattern struct {
	line func() *regexp.Regexp

	// explain returns the problem and the fix, or "" if the pattern does not apply. m
	// holds the match, as FindStringSubmatch returns it.
	explain func(o output, m []string) (problem, fix string)
}

// explainPrinted looks the output up in the table.
func explainPrinted(o output) (problem, fix string, ok bool) {
	var lines []string
	for _, line := range o.lines {
		lines = append(lines, plain.Line(line))
	}
	for _, p := range patterns {
		for _, line := range slices.Backward(lines) { // the cause is usually near the end
			if m := p.line().FindStringSubmatch(line); m != nil {
				o.line = line
				if problem, fix = p.explain(o, m); problem != "" {
					return problem, fix, true
				}
			}
		}
	}
	return "", "", false
}

var patterns = []pattern{
	// npm and npx.
	{lazy.Regexp(`code E404\b|404 Not Found - GET .*registry|is not in (this|the npm) registry`), func(o output, _ []string) (string, string) {
		p := o.fetched()
		return fmt.Sprintf("npm does not find the package %s: the name is wrong, or the package is private.", p),
			fmt.Sprintf(`correct the name in "args" (see https://www.npmjs.com; "npm view %s" fails if no package has that name); for a private package, run "npm login"`, bareName(p))
	}},
	{lazy.Regexp(`code (ETARGET|ENOVERSIONS)\b|No matching version found for`), func(o output, _ []string) (string, string) {
		p := o.fetched()
		return fmt.Sprintf("the package %s has no such version.", p),
			fmt.Sprintf(`"npm view %s versions" lists the versions; write one of them, or %s@latest`, bareName(p), bareName(p))
	}},
	{lazy.Regexp(`could not determine executable to run`), func(o output, _ []string) (string, string) {
		p := o.fetched()
		return fmt.Sprintf("the package %s has no program to run, or has several.", p),
			fmt.Sprintf(`is it an MCP server? If so, name its program: "args": ["-y", "-p", %q, "its-program"]`, p)
	}},
	{lazy.Regexp(`code (?:EINVALIDPACKAGENAME|EINVALIDTAGNAME|EUNSUPPORTEDPROTOCOL)|Invalid package name`), func(o output, _ []string) (string, string) {
		return fmt.Sprintf("%s is not a valid name of a package.", o.fetched()), `correct it in "args": write "name" or "@owner/name"; to choose a version, add it: "name@1.2.3"`
	}},
	{lazy.Regexp(`npm (?:error|ERR!) path (\S+)[/\\]package\.json$`), func(o output, m []string) (string, string) {
		return fmt.Sprintf("npm reads %s as the folder %s, which has no package.json.", o.fetched(), m[1]), `a package's name is "name" or "@owner/name": correct it in "args"`
	}},
	{lazy.Regexp(`code E40[13]\b|code ENEEDAUTH`), func(o output, _ []string) (string, string) {
		return fmt.Sprintf("npm's registry denies you access to %s.", o.fetched()), `run "npm login", or write a token with read access into ~/.npmrc`
	}},
	{lazy.Regexp(`code (ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ERR_SOCKET_TIMEOUT|ENETUNREACH)\b`), func(o output, m []string) (string, string) {
		return fmt.Sprintf("npm can't reach its registry (%s).", m[1]), `is the network up? Behind a proxy, set HTTPS_PROXY, or "npm config set registry" to your company's`
	}},
	{lazy.Regexp(`code (SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_[A-Z_]+|CERT_[A-Z_]+|DEPTH_ZERO_SELF_SIGNED_CERT)`), func(output, []string) (string, string) {
		return "npm does not trust the certificate of its registry: a proxy of your company may be between this machine and the registry.", "set NODE_EXTRA_CA_CERTS to the file of your company's certificate authority"
	}},
	{lazy.Regexp(`root-owned files|EACCES: permission denied.*\.npm\b|code EACCES`), func(output, []string) (string, string) {
		return "npm may not write into its own cache: files there belong to another user.", `run: sudo chown -R "$(id -un)" ~/.npm`
	}},
	{lazy.Regexp(`code ENOTEMPTY|code ECOMPROMISED|code EINTEGRITY`), func(output, []string) (string, string) {
		return "npm's cache is damaged.", "empty it: rm -rf ~/.npm/_npx && npm cache clean --force"
	}},
	{lazy.Regexp(`ENOSPC|No space left on device|not enough space on the disk`), func(output, []string) (string, string) {
		return "the disk is full.", "free some space"
	}},

	// uv.
	{lazy.Regexp(`(\S+) was not found in the package registry|there are no versions of (\S+?)\.?$|Because (\S+) was not found`), func(_ output, m []string) (string, string) {
		p := first(m[1:])
		return fmt.Sprintf("PyPI has no package %s.", p), fmt.Sprintf(`correct the name in "args" (https://pypi.org/project/%s would be its page)`, p)
	}},
	{lazy.Regexp("An executable named `([^`]+)` is not provided by package `([^`]+)`|The executable `([^`]+)` was not found|`([^`]+)` does not (?:contain|provide) any executables"), func(_ output, m []string) (string, string) {
		fix := `name both: "args": ["--from", "the-package", "its-program"]`
		if m[2] != "" {
			fix = fmt.Sprintf(`name both: "args": ["--from", "%s", …], with one of the programs that it has (see above)`, m[2])
		}
		return fmt.Sprintf("the Python package has no program %s.", first(m[1:])), fix
	}},
	{lazy.Regexp(`No solution found when resolving`), func(output, []string) (string, string) {
		return "uv finds no combination of versions of the package and its dependencies.", `write the version of Python that it needs: "args": ["--python", "3.12", …]`
	}},
	{lazy.Regexp(`No interpreter found for (.+?)(?: in |$)`), func(_ output, m []string) (string, string) {
		return fmt.Sprintf("uv finds no %s.", m[1]), "run: uv python install 3.12"
	}},
	{lazy.Regexp(`dns error|error sending request for url \(https://pypi`), func(output, []string) (string, string) {
		return "uv can't reach PyPI.", "is the network up? Behind a proxy, set HTTPS_PROXY"
	}},

	// docker.
	{lazy.Regexp(`Cannot connect to the Docker daemon|failed to connect to the docker API|docker daemon is not running|dockerDesktopLinuxEngine`), func(output, []string) (string, string) {
		return "Docker is installed but does not run.", "start Docker Desktop, or: sudo systemctl start docker"
	}},
	{lazy.Regexp(`permission denied while trying to connect to the (?:Docker daemon|docker API)`), func(output, []string) (string, string) {
		return "you may not use Docker.", `run: sudo usermod -aG docker "$USER", and log in again`
	}},
	{lazy.Regexp(`pull access denied for ([^\s,]+)|manifest for (\S+) not found|(?:Unable to find image|No such image:?) '?([^\s']+?)'? locally$`), func(o output, m []string) (string, string) {
		if o.fault.Kind == status.TimedOut { // it is pulling it
			return "", ""
		}
		return fmt.Sprintf("Docker has no image %s.", first(m[1:])), fmt.Sprintf("correct its name, or try by hand: docker pull %s", first(m[1:]))
	}},
	{lazy.Regexp(`the input device is not a TTY`), func(output, []string) (string, string) {
		return "Docker expects a terminal, which a server does not have.", `write "-i" instead of "-it" in "args"`
	}},

	// Node.
	{lazy.Regexp(`EBADENGINE|Unsupported engine|requires a? ?Node(?:\.js)? version|(?i)node(?:\.js)? (?:version )?v?\d+(?:\.\d+)* (?:or (?:higher|later|newer|above) )?is required|unsupported node`), func(output, []string) (string, string) {
		return "it needs another version of Node.", "install the newest version (https://nodejs.org, or: nvm install --lts), and check it with 'node --version'"
	}},
	{lazy.Regexp(`^SyntaxError: (?:Unexpected token|Unexpected identifier|Unexpected reserved word|The requested module .* does not provide)|^ReferenceError: (?:fetch|ReadableStream|File|WebSocket) is not defined|ERR_UNKNOWN_BUILTIN_MODULE`), func(o output, _ []string) (string, string) {
		if o.byPython() {
			return "", ""
		}
		return "Node does not understand its code: this version of Node is probably too old.", "check the version with 'node --version', and install the newest (https://nodejs.org, or: nvm install --lts)"
	}},
	{lazy.Regexp(`Cannot find (?:module|package) '([^']+)'`), func(o output, m []string) (string, string) {
		if slices.Contains(o.entry.Args, m[1]) || strings.HasPrefix(m[1], "/") || filepath.IsAbs(m[1]) {
			return fmt.Sprintf("the file %s does not exist.", m[1]), `correct the path in "args": absolute paths are the safest; if the server has to be built first, its README says how (npm install && npm run build)`
		}
		return fmt.Sprintf("the module %q is not installed.", m[1]), fmt.Sprintf("install what it needs: cd %s && npm install", o.folder())
	}},
	{lazy.Regexp(`^(?:/usr/bin/)?env: ['‘"]?([^'’":]+)['’"]?: No such file or directory`), func(_ output, m []string) (string, string) {
		return fmt.Sprintf("it is run by %q, which is not on its PATH.", m[1]), installer(m[1]) + `; or write the absolute path of an existing program as "command"`
	}},

	// Python.
	{lazy.Regexp(`^ImportError: cannot import name '\w+' from 'mcp['.]|^ModuleNotFoundError: No module named 'mcp\.|^AttributeError: '(?:Server|FastMCP)' object has no attribute`), func(o output, _ []string) (string, string) {
		fix := "install an older one into its environment: python -m pip install 'mcp<2'"
		if o.entry.Command == "uvx" {
			fix = `ask uv for an older one: "args": ["--with", "mcp<2", …]`
		}
		return "it does not fit the installed version of the MCP library for Python, which is probably too new.", fix
	}},
	{lazy.Regexp(`^(?:ModuleNotFoundError|ImportError): No module named ['"]?([\w.]+)|: No module named ([\w.]+)$`), func(o output, m []string) (string, string) {
		module := first(m[1:])
		return fmt.Sprintf("this Python does not have the module %s.", module),
			fmt.Sprintf("install it for the same Python: %s -m pip install %s; or write the path of the Python of the server's own environment (…/.venv/bin/python) as \"command\"", o.entry.Command, strings.ReplaceAll(strings.Split(module, ".")[0], "_", "-"))
	}},
	{lazy.Regexp(`can't open file '([^']+)'`), func(_ output, m []string) (string, string) {
		return fmt.Sprintf("the file %s does not exist.", m[1]), `correct the path in "args": absolute paths are the safest`
	}},

	// Shells.
	{lazy.Regexp(`^(?:\S*sh: )?(?:line )?(?:\d+: )?(\S+): (?:command )?not found$`), func(_ output, m []string) (string, string) {
		return fmt.Sprintf("a script of the server needs %q, which is not on its PATH.", m[1]), installer(m[1])
	}},
	{lazy.Regexp(`'([^']+)' is not recognized as an internal or external command`), func(_ output, m []string) (string, string) {
		return fmt.Sprintf("a script of the server needs %q, which is not on its PATH.", m[1]), installer(m[1])
	}},

	// Servers themselves.
	{lazy.Regexp(`EADDRINUSE.*?(?::(\d+))?$|(?i)address already in use`), func(_ output, m []string) (string, string) {
		port := "the port that it needs"
		if len(m) > 1 && m[1] != "" {
			port = "port " + m[1]
		}
		return fmt.Sprintf("another program uses %s, perhaps another copy of the same server.", port), "end the other program (a client may have started it), or give this server another port"
	}},
	{lazy.Regexp(`\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b.*?(?i:is not set|not set|not provided|not defined|not found|is required|must be (?:set|provided)|missing|is undefined|is empty|required)`), missingVariable},
	{lazy.Regexp(`(?i:missing|requires?|provide|please set|set the|must set|expected|undefined|specify|need)\b.*?\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b`), missingVariable},
	{lazy.Regexp(`(?i)^\s*(?:error: )?(?:missing|the following) .*?required argument|(?:the following arguments are required|the following required arguments were not provided|missing required argument|provide .*\bargument)`), func(output, []string) (string, string) {
		return "it needs arguments that its entry does not give.", `read what it printed, and write the arguments into "args"`
	}},
	{lazy.Regexp(`(?i)^\s*usage:? (.+)`), func(o output, m []string) (string, string) {
		if o.fault.Kind != status.Exited {
			return "", ""
		}
		return "it does not understand its arguments, or needs more.", fmt.Sprintf(`correct "args"; it prints: usage %s`, clip(strings.TrimPrefix(m[1], ": "), 120))
	}},
	{lazy.Regexp(`(?i)(?:listening|running|started|available|serving)\b.*?(https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\])(?::\d+)?[^\s"',)]*)`), func(o output, m []string) (string, string) {
		if o.fault.Kind != status.TimedOut || o.entry.Transport != config.Stdio {
			return "", ""
		}
		at := strings.NewReplacer("0.0.0.0", "127.0.0.1", "[::]", "127.0.0.1").Replace(m[1])
		return "it serves over HTTP instead of stdin and stdout.", fmt.Sprintf(`make it use stdio (often "args": ["stdio"] or "--transport", "stdio"), or run it yourself and write "url": %q instead of "command"`, at)
	}},
	{lazy.Regexp(`EACCES: permission denied, \w+ '([^']+)'|PermissionError: .*?'([^']+)'|(\S+): Permission denied$`), func(_ output, m []string) (string, string) {
		return fmt.Sprintf("it has no access to %s.", first(m[1:])), fmt.Sprintf("check its owner (ls -ld %s), and give access", first(m[1:]))
	}},
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
	return fmt.Sprintf("it needs the %s %s, which it did not get: servers get only the variables that their entry names.", plural(len(names), "variable"), strings.Join(names, ", ")),
		fmt.Sprintf(`write "env": {%s} into its entry, and set %s where the client is started, or in a file that "envFile" names`, strings.Join(pairs, ", "), strings.Join(names, ", "))
}

// variable matches the name of a variable, as servers use them.
var variable = lazy.Regexp(`\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b`)

// first returns the first that is not empty.
func first(texts []string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return "?"
}

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

func (o output) byPython() bool { return strings.Contains(filepath.Base(o.entry.Command), "py") }

// folder guesses where the code of the server is.
func (o output) folder() string {
	for _, arg := range o.entry.Args {
		if interpreters[filepath.Ext(arg)] != "" && filepath.IsAbs(arg) {
			return filepath.Dir(arg)
		}
	}
	if o.entry.Cwd != "" {
		return o.entry.Cwd
	}
	return "its folder"
}

func installer(program string) string {
	if how, ok := installers[program]; ok {
		return how
	}
	return "install " + program
}
