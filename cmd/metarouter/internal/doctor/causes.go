package doctor

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// A cause explains why a server fails. The first one of the table that applies counts.
type cause struct {
	printed      func() *regexp.Regexp             // a line that the program printed; nil for a cause of a kind of fault
	kind         status.FaultKind                  // without printed
	when         func(o output, named string) bool // nil for always; named is the first group of the line's match that is not empty
	problem, fix string                            // with names in braces, as output.sentences has them
}

// The lines of several causes.
var (
	noModule      = lazy.Regexp(`Cannot find (?:module|package) '([^']+)'`)
	oldMCP        = lazy.Regexp(`^ImportError: cannot import name '\w+' from 'mcp['.]|^ModuleNotFoundError: No module named 'mcp\.|^AttributeError: '(?:Server|FastMCP)' object has no attribute`)
	variableFirst = lazy.Regexp(`\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b.*?(?i:is not set|not set|not provided|not defined|not found|is required|must be (?:set|provided)|missing|is undefined|is empty|required)`)
	variableLast  = lazy.Regexp(`(?i:missing|requires?|provide|please set|set the|must set|expected|undefined|specify|need)\b.*?\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b`)
)

// The sentences of several causes.
const (
	olderPython = "it does not fit the installed version of the MCP library for Python, which is probably too new."
	otherPort   = "end the other program (a client may have started it), or give this server another port"
	notAccepted = "it does not accept its variable {1}."
	checkValue  = `check the value of {1} in its "env"`
	notGiven    = "it needs the {variables}, which it did not get: servers get only the variables that their entry names."
	giveIt      = `write "env": {{pairs}} into its entry, and set {names} where the client is started, or in a file that "envFile" names`
	notFound    = `the command "{program}" was not found: not in {PATH}, nor in your login shell's, nor where nvm, fnm, volta, mise, asdf, Homebrew and similar tools keep programs.`
	readsReadme = `is this program an MCP server, and does it use stdin and stdout? Many programs need an argument such as "mcp" or "stdio": see the README`
	useToken    = `write "headers": {"Authorization": "Bearer ${{variable}}"} into its entry`
)

// causes has those that printed lines show first, and of them each before its consequences.
var causes = []cause{
	{printed: lazy.Regexp(`npx canceled due to missing packages and no YES option`),
		problem: `npx may not fetch {package} without a question, since npm's setting "yes" is false.`, fix: `add "-y" to "args", as the first`},
	{printed: lazy.Regexp(`code E404\b|404 Not Found - GET .*registry|is not in (this|the npm) registry`),
		problem: "npm does not find the package {package}: the name is wrong, or the package is private.", fix: `correct the name in "args" (see https://www.npmjs.com; "npm view {bare}" fails if no package has that name); for a private package, run "npm login"`},
	{printed: lazy.Regexp(`code (ETARGET|ENOVERSIONS)\b|No matching version found for`),
		problem: "the package {package} has no such version.", fix: `"npm view {bare} versions" lists the versions; write one of them, or {bare}@latest`},
	{printed: lazy.Regexp(`could not determine executable to run`),
		problem: "the package {package} has no program to run, or has several.", fix: `is it an MCP server? If so, name its program: "args": ["-y", "-p", "{package}", "its-program"]`},
	{printed: lazy.Regexp(`code E40[13]\b|code ENEEDAUTH`),
		problem: "npm's registry denies you access to {package}.", fix: `run "npm login", or write a token with read access into ~/.npmrc`},
	{printed: lazy.Regexp(`code (ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ERR_SOCKET_TIMEOUT|ENETUNREACH)\b`),
		problem: "npm can't reach its registry ({1}).", fix: `is the network up? Behind a proxy, set HTTPS_PROXY, or "npm config set registry" to your company's`},
	{printed: lazy.Regexp(`code (SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_[A-Z_]+|CERT_[A-Z_]+|DEPTH_ZERO_SELF_SIGNED_CERT)`),
		problem: "npm does not trust the certificate of its registry: a proxy of your company may be between this machine and the registry.", fix: "set NODE_EXTRA_CA_CERTS to the file of your company's certificate authority"},
	{printed: lazy.Regexp(`root-owned files|EACCES: permission denied.*\.npm\b|code EACCES`),
		problem: "npm may not write into its own cache: files there belong to another user.", fix: `run: sudo chown -R "$(id -un)" ~/.npm`},
	{printed: lazy.Regexp(`code ENOTEMPTY|code ECOMPROMISED|code EINTEGRITY`),
		problem: "npm's cache is damaged.", fix: "empty it: rm -rf ~/.npm/_npx && npm cache clean --force"},
	{printed: lazy.Regexp(`(\S+) was not found in the package registry|there are no versions of (\S+?)\.?$|Because (\S+) was not found`),
		problem: "PyPI has no package {1}.", fix: `correct the name in "args" (https://pypi.org/project/{1} would be its page)`},
	{printed: lazy.Regexp("An executable named `([^`]+)` is not provided by package `([^`]+)`"),
		problem: "the Python package has no program {1}.", fix: `name both: "args": ["--from", "{2}", …], with one of the programs that it has (see above)`},
	{printed: lazy.Regexp(`No solution found when resolving`),
		problem: "uv finds no combination of versions of the package and its dependencies.", fix: `write the version of Python that it needs: "args": ["--python", "3.12", …]`},
	{printed: lazy.Regexp(`Cannot connect to the Docker daemon|failed to connect to the docker API|docker daemon is not running|dockerDesktopLinuxEngine`),
		problem: "Docker is installed but does not run.", fix: "start Docker Desktop, or: sudo systemctl start docker"},
	{printed: lazy.Regexp(`permission denied while trying to connect to the (?:Docker daemon|docker API)`),
		problem: "you may not use Docker.", fix: `run: sudo usermod -aG docker "$USER", and log in again`},
	{printed: lazy.Regexp(`pull access denied for ([^\s,]+)|manifest for (\S+) not found|(?:Unable to find image|No such image:?) '?([^\s']+?)'? locally$`), when: func(o output, _ string) bool { return o.fault.Kind != status.TimedOut }, // else it is pulling it
		problem: "Docker has no image {1}.", fix: "correct its name, or try by hand: docker pull {1}"},
	{printed: lazy.Regexp(`the input device is not a TTY`),
		problem: "Docker expects a terminal, which a server does not have.", fix: `write "-i" instead of "-it" in "args"`},
	{printed: lazy.Regexp(`EBADENGINE|Unsupported engine|requires a? ?Node(?:\.js)? version|(?i)node(?:\.js)? (?:version )?v?\d+(?:\.\d+)* (?:or (?:higher|later|newer|above) )?is required|unsupported node`),
		problem: "it needs another version of Node.", fix: "install the newest version (https://nodejs.org, or: nvm install --lts), and check it with 'node --version'"},
	{printed: lazy.Regexp(`^SyntaxError: (?:Unexpected token|Unexpected identifier|Unexpected reserved word|The requested module .* does not provide)|^ReferenceError: (?:fetch|ReadableStream|File|WebSocket) is not defined|ERR_UNKNOWN_BUILTIN_MODULE`), when: func(o output, _ string) bool { return !strings.Contains(filepath.Base(o.entry.Command), "py") },
		problem: "Node does not understand its code: this version of Node is probably too old.", fix: "check the version with 'node --version', and install the newest (https://nodejs.org, or: nvm install --lts)"},
	{printed: noModule, when: func(o output, named string) bool {
		return slices.Contains(o.entry.Args, named) || strings.HasPrefix(named, "/") || filepath.IsAbs(named)
	}, // and no module
		problem: "the file {1} does not exist.", fix: `correct the path in "args": absolute paths are the safest; if the server has to be built first, its README says how (npm install && npm run build)`},
	{printed: noModule, problem: `the module "{1}" is not installed.`, fix: "install what it needs: run npm install in the folder of the server"},
	{printed: lazy.Regexp(`^(?:/usr/bin/)?env: ['‘"]?([^'’":]+)['’"]?: No such file or directory`),
		problem: `it is run by "{1}", which is not on its PATH.`, fix: `{install}; or write the absolute path of an existing program as "command"`},
	{printed: oldMCP, when: func(o output, _ string) bool { return o.entry.Command == "uvx" },
		problem: olderPython, fix: `ask uv for an older one: "args": ["--with", "mcp<2", …]`},
	{printed: oldMCP, problem: olderPython, fix: "install an older one into its environment: python -m pip install 'mcp<2'"},
	{printed: lazy.Regexp(`^(?:ModuleNotFoundError|ImportError): No module named ['"]?([\w.]+)|: No module named ([\w.]+)$`),
		problem: "this Python does not have the module {1}.", fix: `install it for the same Python: {command} -m pip install {module}; or write the path of the Python of the server's own environment (…/.venv/bin/python) as "command"`},
	{printed: lazy.Regexp(`can't open file '([^']+)'`),
		problem: "the file {1} does not exist.", fix: `correct the path in "args": absolute paths are the safest`},
	{printed: lazy.Regexp(`^(?:\S*sh: )?(?:line )?(?:\d+: )?(\S+): (?:command )?not found$|'([^']+)' is not recognized as an internal or external command`),
		problem: `a script of the server needs "{1}", which is not on its PATH.`, fix: "{install}"},
	{printed: lazy.Regexp(`EADDRINUSE.*?:(\d+)$`), problem: "another program uses port {1}, perhaps another copy of the same server.", fix: otherPort},
	{printed: lazy.Regexp(`EADDRINUSE|(?i)address already in use`),
		problem: "another program uses the port that it needs, perhaps another copy of the same server.", fix: otherPort},
	{printed: variableFirst, when: hasVariable, problem: notAccepted, fix: checkValue},
	{printed: variableFirst, when: lacksVariable, problem: notGiven, fix: giveIt},
	{printed: variableLast, when: hasVariable, problem: notAccepted, fix: checkValue},
	{printed: variableLast, when: lacksVariable, problem: notGiven, fix: giveIt},
	{printed: lazy.Regexp(`(?i)^\s*(?:error: )?(?:missing|the following) .*?required argument|(?:the following arguments are required|the following required arguments were not provided|missing required argument|provide .*\bargument)`),
		problem: "it needs arguments that its entry does not give.", fix: `read what it printed, and write the arguments into "args"`},
	{printed: lazy.Regexp(`(?i)^\s*usage:? (?:: )?(.+)`), when: func(o output, _ string) bool { return o.fault.Kind == status.Exited },
		problem: "it does not understand its arguments, or needs more.", fix: `correct "args"; it prints: usage {line}`},
	{printed: lazy.Regexp(`(?i)(?:listening|running|started|available|serving)\b.*?(https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\])(?::\d+)?[^\s"',)]*)`), when: func(o output, _ string) bool {
		return o.fault.Kind == status.TimedOut && o.entry.Transport == config.Stdio
	},
		problem: "it serves over HTTP instead of stdin and stdout.", fix: `make it use stdio (often "args": ["stdio"] or "--transport", "stdio"), or run it yourself and write "url": "{url}" instead of "command"`},
	{printed: lazy.Regexp(`EACCES: permission denied, \w+ '([^']+)'|PermissionError: .*?'([^']+)'|(\S+): Permission denied$`),
		problem: "it has no access to {1}.", fix: "check its owner (ls -ld {1}), and give access"},
	{kind: status.CommandMissing, when: func(o output, _ string) bool { return strings.Contains(o.program(), " ") },
		problem: `there is no program "{program}".`, fix: `write the program alone as "command", and its arguments into "args"; or correct the path`},
	{kind: status.CommandMissing, when: func(o output, named string) bool {
		return isPath(o, named) && !filepath.IsAbs(o.program()) && o.entry.Cwd == ""
	},
		problem: "the program {program} does not exist.", fix: `write its absolute path, or set "cwd". A relative path is resolved in the folder in which metarouter was started: now {here}, but each client may start it in another folder`},
	{kind: status.CommandMissing, when: isPath,
		problem: "the program {path} does not exist.", fix: `correct "command": write the absolute path of the program`},
	{kind: status.CommandMissing, when: func(o output, _ string) bool { return o.like() != "" },
		problem: `no program is called "{program}".`, fix: `write "command": "{like}", if you mean that program`},
	{kind: status.CommandMissing, when: func(o output, _ string) bool { return shortPath().MatchString(o.fault.Path) },
		problem: notFound + " This PATH is the short one of programs that are started from the Dock or a menu.", fix: "{installed}"},
	{kind: status.CommandMissing, problem: notFound, fix: "{installed}"},
	{kind: status.CommandUnusable, when: func(o output, _ string) bool { return o.fault.Message == syscall.EISDIR.Error() },
		problem: "its command {path} is a folder.", fix: `write the path of the program in it as "command"`},
	{kind: status.CommandUnusable, when: isScript,
		problem: "{path} is a file that another program must run.", fix: `write "command": "{interpreter}", "args": [{script}]`},
	{kind: status.InterpreterMissing, when: isScript,
		problem: "{path} is a file that another program must run.", fix: `write "command": "{interpreter}", "args": [{script}]`},
	{kind: status.InterpreterMissing,
		problem: "{path} is a script, and the program that its first line names does not exist.", fix: `see which program it needs (head -1 {path}) and install that; or write the program that runs it as "command", and the path of the script as the first of "args"`},
	{kind: status.CommandUnusable,
		problem: "{path} exists, but the system can't run it: {message}.", fix: "if it is a program for this system, make it executable (chmod +x {path}); the first line of a script must name an existing program, such as #!/usr/bin/env node"},
	{kind: status.FolderMissing, problem: "the folder that it should run in, {cwd}, does not exist.", fix: `make the folder, or correct "cwd" in its entry`},
	{kind: status.FetchFailed, when: func(o output, _ string) bool { return len(o.lines) == 0 && strings.HasPrefix(o.fault.Command, "np") },
		problem: "{program} could not fetch {package}.", fix: `read npm's newest log in the folder ~/.npm/_logs, or that of its "cache" setting; then {rerun}`},
	{kind: status.FetchFailed, problem: "{program} could not fetch {package}.", fix: "{rerun}"},
	{kind: status.Exited, when: func(o output, _ string) bool { return o.fault.Signal == "signal: killed" },
		problem: "{ended}", fix: "the system may have run out of memory: close other programs, or look into the log of the system (dmesg, Console)"},
	{kind: status.Exited, when: func(o output, _ string) bool { return o.silent() },
		problem: "{ended}", fix: `is this the right program? Many programs need an argument to be a server, such as "mcp", "serve" or "stdio": see the README, and write the argument into "args"`},
	{kind: status.Exited, problem: "{ended}", fix: "{rerun}"},
	{kind: status.TimedOut, when: func(o output, _ string) bool { return o.fault.Doing != "" },
		problem: "{doing}, and had not finished after {after}.", fix: "is the network slow? Fetch the package once by hand ({hand}), or write {longer} into its entry"},
	{kind: status.TimedOut, when: listing,
		problem: "it answers, but it did not list its tools within {after}.", fix: "write {longer} into its entry if it needs more time; else report this to its authors"},
	{kind: status.TimedOut, when: func(o output, _ string) bool { return o.entry.Transport != config.Stdio },
		problem: "{host} accepts connections, but did not answer within {after}.", fix: "is this the url of an MCP server? If it only needs more time, write {longer} into its entry"},
	{kind: status.TimedOut, when: func(o output, _ string) bool { return o.stray > 0 },
		problem: "it runs, but prints text instead of MCP messages{example}, and did not answer within {after}.", fix: readsReadme},
	{kind: status.TimedOut,
		problem: "it runs, but did not answer within {after}.", fix: "is this program an MCP server, and does it use stdin and stdout, one message a line? metarouter sends Content-Length headers only to a server that has written one. If it only needs more time, write {longer} into its entry"},
	{kind: status.Refused, when: listing, problem: "it answers the request for its tools with an error: {message} ({code}).", fix: reportIt},
	{kind: status.Refused, problem: "it answers the first MCP message (server/discover or initialize) with an error: {message} ({code}).", fix: reportIt},
	{kind: status.NoSecret, problem: "{message}.", fix: "{secret}; then run: metarouter restart {server}"},
	{kind: status.PrintsText, problem: "it prints text, not JSON-RPC messages ({quoted}).", fix: readsReadme},
	{kind: status.WrongProtocol,
		problem: "it speaks version {protocol} of the protocol, which metarouter does not know.", fix: "update the server; if the server is newer than metarouter, update metarouter"},
	{kind: status.Unauthorized, when: func(o output, _ string) bool { return o.fault.HadToken && o.fault.Login == "" && o.fault.Message == "" },
		problem: `{host} refuses the token in the entry's "Authorization" header (HTTP {code}).`, fix: "the token may have expired, or belong to another service: create a new one on the website of the server's owner, and set its variable to it"},
	{kind: status.Unauthorized, when: loginIs(status.IssuerUnreachable),
		problem: "{host} requires a login, and {login}.", fix: "check whether {issuer} can be reached from here; the next call tries it again"},
	{kind: status.Unauthorized, when: loginIs(status.TokenRejected),
		problem: "{host} requires a login, and {login}.", fix: `run: metarouter login {server}; if that does not help, the tokens are for another server: set "resource" or "scopes" in "oauth" of its entry as its documentation says`},
	{kind: status.Unauthorized, when: loginIs(status.ScopeMissing),
		problem: "{host} requires a login, and {login}.", fix: "run: metarouter login {server}; the account that you log in with must have that permission"},
	{kind: status.Unauthorized, when: func(o output, _ string) bool { return o.fault.Login != "" },
		problem: "{host} requires a login, and {login}.", fix: "run: metarouter login {server}"},
	{kind: status.Unauthorized, when: func(o output, _ string) bool { return o.fault.Message != "" && o.fault.Code == 403 },
		problem: "{host} refuses the router's requests (HTTP 403).", fix: "does the account of the login or of the token have access to the server? Else ask the people who run it"},
	{kind: status.Unauthorized, when: func(o output, _ string) bool {
		return o.fault.Message != "" && o.entry.OAuth != nil && o.entry.OAuth.Grant == oauth.ClientCredentials
	},
		problem: "{host} requires a token, and the router gets none with its client credentials.", fix: `correct "clientId", and "clientSecret" or "privateKey", in "oauth" of its entry, then run: metarouter restart {server}`},
	{kind: status.Unauthorized, when: func(o output, _ string) bool { return o.fault.Message != "" },
		problem: "{host} requires a token, and who issues it can't be found out.", fix: "check the network; if the server has no login, " + useToken},
	{kind: status.Unauthorized,
		problem: "{host} requires a token, and says nothing of a login (OAuth).", fix: "create a token on the website of the server's owner, " + useToken + ", and set that variable"},
	{kind: status.BadStatus, when: func(o output, _ string) bool { return o.fault.Code == 404 },
		problem: "{address} has no MCP server (HTTP 404).", fix: "correct the path of the url: it is often /mcp, or /sse with older servers"},
	{kind: status.BadStatus, when: func(o output, _ string) bool {
		return (o.fault.Code == 405 || o.fault.Code == 400) && o.entry.Transport != config.AutoHTTP
	},
		problem: "{host} does not speak {transport} (HTTP {code}).", fix: `take "type" out of its entry: both types are tried then`},
	{kind: status.BadStatus, when: func(o output, _ string) bool { return o.fault.Code >= 500 },
		problem: "{host} has a fault of its own: it answers HTTP {code}.", fix: "try again later, or ask the people who run it"},
	{kind: status.BadStatus,
		problem: "{host} answers HTTP {code} instead of MCP.", fix: "is this the url of an MCP server? Its documentation has the right one"},
	{kind: status.Redirected, problem: "{message}.", fix: "write that url into its entry, if it is correct"},
	{kind: status.Unreachable, when: netIs(status.NoSuchHost),
		problem: "no computer is called {host}, or the network is down.", fix: "correct the url, or check the network (VPN, DNS)"},
	{kind: status.Unreachable, when: netIs(status.ConnectionRefused),
		problem: "nothing listens at {host}.", fix: "start the server that should be there, or correct the port in the url"},
	{kind: status.Unreachable, when: netIs(status.BadCertificate),
		problem: "the certificate of {host} is not trusted.", fix: "if it is your company's own, set SSL_CERT_FILE to the file of its certificate authority where the client is started; else do not use this server"},
	{kind: status.Unreachable, when: netIs(status.NotTLS),
		problem: "{host} does not speak https.", fix: "write http:// instead of https:// in the url, if that is intended"},
	{kind: status.Unreachable, when: netIs(status.NoAnswer),
		problem: "{host} does not answer.", fix: "is a VPN or a proxy (HTTPS_PROXY) needed to reach it? Else its port may be wrong"},
	{kind: status.Unreachable, problem: "{host} can't be reached.", fix: "check the url and the network"},
	{kind: status.OtherFault, when: listing, problem: "its tools can't be listed: {message}.", fix: reportIt},
	{kind: status.OtherFault, problem: "it does not start: {message}.", fix: "{rerun}"},
}

func hasVariable(o output, named string) bool {
	_, set := o.entry.Env[named]
	return set && !strings.HasPrefix(named, "ERR_")
}

func lacksVariable(o output, named string) bool {
	return !hasVariable(o, named) && !strings.HasPrefix(named, "ERR_")
}

func isPath(o output, _ string) bool {
	return filepath.Base(o.program()) != o.program() || strings.Contains(o.program(), "/")
}

func isScript(o output, _ string) bool { return interpreters[filepath.Ext(o.path())] != "" }

func listing(o output, _ string) bool { return o.fault.Listing }

func loginIs(reason status.LoginReason) func(output, string) bool {
	return func(o output, _ string) bool { return o.fault.Login == reason }
}

func netIs(why string) func(output, string) bool {
	return func(o output, _ string) bool { return o.fault.Net == why }
}
