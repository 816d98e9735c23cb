package doctor

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// words are what a program printed before it failed.
type words struct {
	entry config.Server
	fault *supervisor.Fault
	said  []string
	line  string // of said, that is looked at
}

// A saying is what other programs print when something is wrong with them, and what
// that means. The first that matches a line counts, in the order of the table: so
// causes come before consequences.
type saying struct {
	line func() *regexp.Regexp
	// means returns the problem and the fix. m holds what line matched, as
	// FindStringSubmatch has it.
	means func(w words, m []string) (problem, fix string)
}

// explainWords looks the words up in the table.
func explainWords(w words) (problem, fix string, ok bool) {
	var lines []string
	for _, line := range w.said {
		lines = append(lines, supervisor.Plain(line))
	}
	for _, s := range sayings {
		for _, line := range slices.Backward(lines) { // what came last is nearest to the end
			if m := s.line().FindStringSubmatch(line); m != nil {
				w.line = line
				if problem, fix = s.means(w, m); problem != "" {
					return problem, fix, true
				}
			}
		}
	}
	return "", "", false
}

var sayings = []saying{
	// npm and npx.
	{re(`code E404\b|404 Not Found - GET .*registry|is not in (this|the npm) registry`), func(w words, _ []string) (string, string) {
		p := w.fetched()
		return fmt.Sprintf("npm knows no package %s: the name is wrong, or it is private.", p),
			fmt.Sprintf(`correct the name in "args" (https://www.npmjs.com has them all; "npm view %s" tells whether it is there); for a private one, run "npm login"`, bareName(p))
	}},
	{re(`code (ETARGET|ENOVERSIONS)\b|No matching version found for`), func(w words, _ []string) (string, string) {
		p := w.fetched()
		return fmt.Sprintf("the package %s has no such version.", p),
			fmt.Sprintf(`"npm view %s versions" lists those that there are; write one, or %s@latest`, bareName(p), bareName(p))
	}},
	{re(`could not determine executable to run`), func(w words, _ []string) (string, string) {
		p := w.fetched()
		return fmt.Sprintf("the package %s has no program to run, or several.", p),
			fmt.Sprintf(`is it an MCP server? If so, name its program: "args": ["-y", "-p", %q, "its-program"]`, p)
	}},
	{re(`code (?:EINVALIDPACKAGENAME|EINVALIDTAGNAME|EUNSUPPORTEDPROTOCOL)|Invalid package name`), func(w words, _ []string) (string, string) {
		return fmt.Sprintf("%s is no name that a package can have.", w.fetched()), `correct it in "args": "name" or "@owner/name", with "@1.2.3" behind for a version`
	}},
	{re(`npm (?:error|ERR!) path (\S+)[/\\]package\.json$`), func(w words, m []string) (string, string) {
		return fmt.Sprintf("npm takes %s for a folder, %s, which has no package.json.", w.fetched(), m[1]), `a package's name is "name" or "@owner/name": correct it in "args"`
	}},
	{re(`code E40[13]\b|code ENEEDAUTH`), func(w words, _ []string) (string, string) {
		return fmt.Sprintf("npm's registry does not let you have %s.", w.fetched()), `run "npm login", or put a token that may read it into ~/.npmrc`
	}},
	{re(`code (ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ERR_SOCKET_TIMEOUT|ENETUNREACH)\b`), func(w words, m []string) (string, string) {
		return fmt.Sprintf("npm can't reach its registry (%s).", m[1]), `is there a network? Behind a proxy, set HTTPS_PROXY, or "npm config set registry" to your company's`
	}},
	{re(`code (SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_[A-Z_]+|CERT_[A-Z_]+|DEPTH_ZERO_SELF_SIGNED_CERT)`), func(words, []string) (string, string) {
		return "npm does not trust the certificate of its registry: a proxy of your company's may stand between.", "have NODE_EXTRA_CA_CERTS name the file of your company's authority"
	}},
	{re(`root-owned files|EACCES: permission denied.*\.npm\b|code EACCES`), func(words, []string) (string, string) {
		return "npm may not write into its own cache: files there belong to another user.", `run: sudo chown -R "$(id -un)" ~/.npm`
	}},
	{re(`code ENOTEMPTY|code ECOMPROMISED|code EINTEGRITY`), func(words, []string) (string, string) {
		return "npm's cache is damaged.", "empty it: rm -rf ~/.npm/_npx && npm cache clean --force"
	}},
	{re(`ENOSPC|No space left on device|not enough space on the disk`), func(words, []string) (string, string) {
		return "the disk is full.", "make room"
	}},

	// uv.
	{re(`(\S+) was not found in the package registry|there are no versions of (\S+?)\.?$|Because (\S+) was not found`), func(_ words, m []string) (string, string) {
		p := first(m[1:])
		return fmt.Sprintf("PyPI has no package %s.", p), fmt.Sprintf(`correct the name in "args" (https://pypi.org/project/%s would be its page)`, p)
	}},
	{re("An executable named `([^`]+)` is not provided by package `([^`]+)`|The executable `([^`]+)` was not found|`([^`]+)` does not (?:contain|provide) any executables"), func(_ words, m []string) (string, string) {
		return fmt.Sprintf("the Python package has no program %s.", first(m[1:])), `name both: "args": ["--from", "the-package", "its-program"]`
	}},
	{re(`No solution found when resolving`), func(words, []string) (string, string) {
		return "uv finds no versions of the package and of what it needs that fit together.", `write the version of Python that it wants: "args": ["--python", "3.12", …]`
	}},
	{re(`No interpreter found for (.+?)(?: in |$)`), func(_ words, m []string) (string, string) {
		return fmt.Sprintf("uv finds no %s.", m[1]), "run: uv python install 3.12"
	}},
	{re(`dns error|error sending request for url \(https://pypi`), func(words, []string) (string, string) {
		return "uv can't reach PyPI.", "is there a network? Behind a proxy, set HTTPS_PROXY"
	}},

	// docker.
	{re(`Cannot connect to the Docker daemon|failed to connect to the docker API|docker daemon is not running|dockerDesktopLinuxEngine`), func(words, []string) (string, string) {
		return "Docker is installed and does not run.", "start Docker Desktop, or: sudo systemctl start docker"
	}},
	{re(`permission denied while trying to connect to the (?:Docker daemon|docker API)`), func(words, []string) (string, string) {
		return "you may not use Docker.", `run: sudo usermod -aG docker "$USER", and log in anew`
	}},
	{re(`pull access denied for ([^\s,]+)|manifest for (\S+) not found|(?:Unable to find image|No such image:?) '?([^\s']+?)'? locally$`), func(w words, m []string) (string, string) {
		if w.fault.Kind == supervisor.TimedOut { // it is pulling it
			return "", ""
		}
		return fmt.Sprintf("Docker has no image %s.", first(m[1:])), fmt.Sprintf("correct its name, or try by hand: docker pull %s", first(m[1:]))
	}},
	{re(`the input device is not a TTY`), func(words, []string) (string, string) {
		return "Docker was told to use a terminal, and there is none.", `write "-i" instead of "-it" in "args"`
	}},

	// Node.
	{re(`EBADENGINE|Unsupported engine|requires a? ?Node(?:\.js)? version|(?i)node(?:\.js)? (?:version )?v?\d+(?:\.\d+)* (?:or (?:higher|later|newer|above) )?is required|unsupported node`), func(words, []string) (string, string) {
		return "it wants another version of Node.", "install the newest (https://nodejs.org, or: nvm install --lts), and see what 'node --version' says"
	}},
	{re(`^SyntaxError: (?:Unexpected token|Unexpected identifier|Unexpected reserved word|The requested module .* does not provide)|^ReferenceError: (?:fetch|ReadableStream|File|WebSocket) is not defined|ERR_UNKNOWN_BUILTIN_MODULE`), func(w words, _ []string) (string, string) {
		if w.byPython() {
			return "", ""
		}
		return "Node does not understand its code: this Node is likely too old for it.", "see what 'node --version' says, and install the newest (https://nodejs.org, or: nvm install --lts)"
	}},
	{re(`Cannot find (?:module|package) '([^']+)'`), func(w words, m []string) (string, string) {
		if slices.Contains(w.entry.Args, m[1]) || strings.HasPrefix(m[1], "/") || filepath.IsAbs(m[1]) {
			return fmt.Sprintf("there is no file %s.", m[1]), `correct the path in "args": whole paths are the safest; if the server has to be built first, its README says how (npm install && npm run build)`
		}
		return fmt.Sprintf("it lacks the module %q.", m[1]), fmt.Sprintf("install what it needs: cd %s && npm install", w.folder())
	}},
	{re(`^(?:/usr/bin/)?env: ['‘"]?([^'’":]+)['’"]?: No such file or directory`), func(_ words, m []string) (string, string) {
		return fmt.Sprintf("it is run by %q, which is not on its PATH.", m[1]), installer(m[1]) + `; or write the whole path of a program that is there as "command"`
	}},

	// Python.
	{re(`^(?:ModuleNotFoundError|ImportError): No module named ['"]?([\w.]+)|: No module named ([\w.]+)$`), func(w words, m []string) (string, string) {
		module := first(m[1:])
		return fmt.Sprintf("this Python lacks the module %s.", module),
			fmt.Sprintf("install it for the same Python: %s -m pip install %s; or write the path of the Python of the server's own environment (…/.venv/bin/python) as \"command\"", w.entry.Command, strings.ReplaceAll(strings.Split(module, ".")[0], "_", "-"))
	}},
	{re(`can't open file '([^']+)'`), func(_ words, m []string) (string, string) {
		return fmt.Sprintf("there is no file %s.", m[1]), `correct the path in "args": whole paths are the safest`
	}},

	// Shells.
	{re(`^(?:\S*sh: )?(?:line )?(?:\d+: )?(\S+): (?:command )?not found$`), func(_ words, m []string) (string, string) {
		return fmt.Sprintf("a script in it wants %q, which is not on its PATH.", m[1]), installer(m[1])
	}},
	{re(`'([^']+)' is not recognized as an internal or external command`), func(_ words, m []string) (string, string) {
		return fmt.Sprintf("a script in it wants %q, which is not on its PATH.", m[1]), installer(m[1])
	}},

	// Servers themselves.
	{re(`EADDRINUSE.*?(?::(\d+))?$|(?i)address already in use`), func(_ words, m []string) (string, string) {
		port := "the port that it wants"
		if len(m) > 1 && m[1] != "" {
			port = "port " + m[1]
		}
		return fmt.Sprintf("another program holds %s, perhaps another copy of the same server.", port), "end that one (a client may have started it, too), or give this one another port"
	}},
	{re(`\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b.*?(?i:is not set|not set|not provided|not defined|not found|is required|must be (?:set|provided)|missing|is undefined|is empty|required)`), missingVariable},
	{re(`(?i:missing|requires?|provide|please set|set the|must set|expected|undefined|specify|need)\b.*?\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b`), missingVariable},
	{re(`(?i)^\s*(?:error: )?(?:missing|the following) .*?required argument|(?:the following arguments are required|the following required arguments were not provided|missing required argument|provide .*\bargument)`), func(words, []string) (string, string) {
		return "it wants arguments that it was not given.", `see what it says, and put them into "args"`
	}},
	{re(`(?i)^\s*usage:? (.+)`), func(w words, m []string) (string, string) {
		if w.fault.Kind != supervisor.Exited {
			return "", ""
		}
		return "it does not understand its arguments, or lacks some.", fmt.Sprintf(`correct "args"; it says: usage %s`, clip(strings.TrimPrefix(m[1], ": "), 120))
	}},
	{re(`(?i)(?:listening|running|started|available|serving)\b.*?(https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\])(?::\d+)?[^\s"',)]*)`), func(w words, m []string) (string, string) {
		if w.fault.Kind != supervisor.TimedOut || w.entry.Transport != config.Stdio {
			return "", ""
		}
		at := strings.NewReplacer("0.0.0.0", "127.0.0.1", "[::]", "127.0.0.1").Replace(m[1])
		return "it serves over HTTP instead of stdin and stdout.", fmt.Sprintf(`tell it to use stdio (often "args": ["stdio"] or "--transport", "stdio"), or run it yourself and write "url": %q instead of "command"`, at)
	}},
	{re(`EACCES: permission denied, \w+ '([^']+)'|PermissionError: .*?'([^']+)'|(\S+): Permission denied$`), func(_ words, m []string) (string, string) {
		return fmt.Sprintf("it may not use %s.", first(m[1:])), fmt.Sprintf("see whose it is (ls -ld %s), and allow it", first(m[1:]))
	}},
}

func missingVariable(w words, m []string) (problem, fix string) {
	name := m[1]
	if strings.HasPrefix(name, "ERR_") {
		return "", ""
	}
	if _, set := w.entry.Env[name]; set {
		return fmt.Sprintf("it does not accept its variable %s.", name), fmt.Sprintf(`see whether the value that its "env" gives %s is right`, name)
	}
	var names, pairs []string // all that the line names
	for _, n := range variable().FindAllString(w.line, -1) {
		if _, set := w.entry.Env[n]; !set && !slices.Contains(names, n) {
			names, pairs = append(names, n), append(pairs, fmt.Sprintf(`%q: "${%s}"`, n, n))
		}
	}
	return fmt.Sprintf("it wants the %s %s, which it was not given: servers get only the variables that their entry names.", plural(len(names), "variable"), strings.Join(names, ", ")),
		fmt.Sprintf(`write "env": {%s} into its entry, and set %s where the client is started, or in a file that "envFile" names`, strings.Join(pairs, ", "), strings.Join(names, ", "))
}

// variable matches the name of one, as servers have them.
var variable = re(`\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b`)

// re is compiled when it is first needed, which in most processes is never.
func re(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// first returns the first that is not empty.
func first(texts []string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return "?"
}

// fetched names what the entry fetches.
func (w words) fetched() string {
	if len(w.fault.Fetches) > 0 {
		return strings.Join(w.fault.Fetches, ", ")
	}
	for _, arg := range w.entry.Args {
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

func (w words) byPython() bool { return strings.Contains(filepath.Base(w.entry.Command), "py") }

// folder is where the server's code seems to be.
func (w words) folder() string {
	for _, arg := range w.entry.Args {
		if interpreters[filepath.Ext(arg)] != "" && filepath.IsAbs(arg) {
			return filepath.Dir(arg)
		}
	}
	if w.entry.Cwd != "" {
		return w.entry.Cwd
	}
	return "its folder"
}

func installer(program string) string {
	if how, ok := installers[program]; ok {
		return how
	}
	return "install " + program
}
