package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// A failure explains a fault of a kind. The first row that applies counts.
type failure struct {
	kind         status.FaultKind
	applies      func(o output) bool // nil for always
	problem, fix string              // with names in braces, as output.fill has them
}

// The fixes of several failures.
const (
	readsReadme = `is this program an MCP server, and does it use stdin and stdout? Many programs need an argument such as "mcp" or "stdio": see the README`
	useToken    = `write "headers": {"Authorization": "Bearer ${{variable}}"} into its entry`
	reportIt    = "update the server, or report this to its authors"
	notFound    = `the command "{program}" was not found: not in {PATH}, nor in your login shell's, nor where nvm, fnm, volta, mise, asdf, Homebrew and similar tools keep programs.`
)

var (
	shortPath  = lazy.Regexp(`^(?:(?:/usr)?/s?bin(?::|$))+$`) // with folders of the system only
	noVariable = lazy.Regexp(`^[0-9]|\W`)
)

var failures = []failure{
	{status.CommandMissing, func(o output) bool { return strings.Contains(o.program(), " ") }, `there is no program "{program}".`,
		`write the program alone as "command", and its arguments into "args"; or correct the path`},
	{status.CommandMissing, func(o output) bool { return o.isPath() && !filepath.IsAbs(o.program()) && o.entry.Cwd == "" }, "the program {program} does not exist.",
		`write its absolute path, or set "cwd". A relative path is resolved in the folder in which metarouter was started: now {here}, but each client may start it in another folder`},
	{status.CommandMissing, output.isPath, "the program {path} does not exist.", `correct "command": write the absolute path of the program`},
	{status.CommandMissing, func(o output) bool { return o.like() != "" }, `no program is called "{program}".`, `write "command": "{like}", if you mean that program`},
	{status.CommandMissing, func(o output) bool { return shortPath().MatchString(o.fault.Path) },
		notFound + " This PATH is the short one of programs that are started from the Dock or a menu.", "{installed}"},
	{status.CommandMissing, nil, notFound, "{installed}"},
	{status.CommandUnusable, func(o output) bool { return o.fault.Message == syscall.EISDIR.Error() }, "its command {path} is a folder.", `write the path of the program in it as "command"`},
	{status.CommandUnusable, output.isScript, "{path} is a file that another program must run.", `write "command": "{interpreter}", "args": [{script}]`},
	{status.InterpreterMissing, output.isScript, "{path} is a file that another program must run.", `write "command": "{interpreter}", "args": [{script}]`},
	{status.InterpreterMissing, nil, "{path} is a script, and the program that its first line names does not exist.",
		`see which program it needs (head -1 {path}) and install that; or write the program that runs it as "command", and the path of the script as the first of "args"`},
	{status.CommandUnusable, nil, "{path} exists, but the system can't run it: {message}.",
		"if it is a program for this system, make it executable (chmod +x {path}); the first line of a script must name an existing program, such as #!/usr/bin/env node"},
	{status.FolderMissing, nil, "the folder that it should run in, {cwd}, does not exist.", `make the folder, or correct "cwd" in its entry`},
	{status.FetchFailed, func(o output) bool { return len(o.lines) == 0 && strings.HasPrefix(o.fault.Command, "np") }, "{program} could not fetch {package}.",
		`read npm's newest log in the folder ~/.npm/_logs, or that of its "cache" setting; then {rerun}`},
	{status.FetchFailed, nil, "{program} could not fetch {package}.", "{rerun}"},
	{status.Exited, func(o output) bool { return o.fault.Signal == "signal: killed" }, "{ended}", "the system may have run out of memory: close other programs, or look into the log of the system (dmesg, Console)"},
	{status.Exited, output.silent, "{ended}", `is this the right program? Many programs need an argument to be a server, such as "mcp", "serve" or "stdio": see the README, and write the argument into "args"`},
	{status.Exited, nil, "{ended}", "{rerun}"},
	{status.TimedOut, func(o output) bool { return o.fault.Doing != "" }, "{doing}, and had not finished after {after}.", "is the network slow? Fetch the package once by hand ({hand}), or write {longer} into its entry"},
	{status.TimedOut, listing, "it answers, but it did not list its tools within {after}.", "write {longer} into its entry if it needs more time; else report this to its authors"},
	{status.TimedOut, func(o output) bool { return o.entry.Transport != config.Stdio }, "{host} accepts connections, but did not answer within {after}.",
		"is this the url of an MCP server? If it only needs more time, write {longer} into its entry"},
	{status.TimedOut, func(o output) bool { return o.stray > 0 }, "it runs, but prints text instead of MCP messages{example}, and did not answer within {after}.", readsReadme},
	{status.TimedOut, nil, "it runs, but did not answer within {after}.",
		`is this program an MCP server, and does it use stdin and stdout, one message a line? metarouter sends Content-Length headers only to a server that has written one. If it only needs more time, write {longer} into its entry`},
	{status.Refused, listing, "it answers the request for its tools with an error: {message} ({code}).", reportIt},
	{status.Refused, nil, "it answers the first MCP message (server/discover or initialize) with an error: {message} ({code}).", reportIt},
	{status.NoSecret, nil, "{message}.", "{secret}; then run: metarouter restart {server}"},
	{status.PrintsText, nil, "it prints text, not JSON-RPC messages ({quoted}).", readsReadme},
	{status.WrongProtocol, nil, "it speaks version {protocol} of the protocol, which metarouter does not know.", "update the server; if the server is newer than metarouter, update metarouter"},

	{status.Unauthorized, func(o output) bool { return o.fault.HadToken && o.fault.Login == "" && o.fault.Message == "" }, `{host} refuses the token in the entry's "Authorization" header (HTTP {code}).`,
		"the token may have expired, or belong to another service: create a new one on the website of the server's owner, and set its variable to it"},
	{status.Unauthorized, func(o output) bool { return o.fault.Login == status.IssuerUnreachable }, "{host} requires a login, and {login}.", "check whether {issuer} can be reached from here; the next call tries it again"},
	{status.Unauthorized, func(o output) bool { return o.fault.Login == status.TokenRejected }, "{host} requires a login, and {login}.",
		`run: metarouter login {server}; if that does not help, the tokens are for another server: set "resource" or "scopes" in "oauth" of its entry as its documentation says`},
	{status.Unauthorized, func(o output) bool { return o.fault.Login == status.ScopeMissing }, "{host} requires a login, and {login}.",
		"run: metarouter login {server}; the account that you log in with must have that permission"},
	{status.Unauthorized, func(o output) bool { return o.fault.Login != "" }, "{host} requires a login, and {login}.", "run: metarouter login {server}"},
	{status.Unauthorized, func(o output) bool { return o.fault.Message != "" && o.fault.Code == 403 }, "{host} refuses the router's requests (HTTP 403).",
		"does the account of the login or of the token have access to the server? Else ask the people who run it"},
	{status.Unauthorized, func(o output) bool {
		return o.fault.Message != "" && o.entry.OAuth != nil && o.entry.OAuth.Grant == string(oauth.ClientCredentials)
	}, "{host} requires a token, and the router gets none with its client credentials.",
		`correct "clientId", and "clientSecret" or "privateKey", in "oauth" of its entry, then run: metarouter restart {server}`},
	{status.Unauthorized, func(o output) bool { return o.fault.Message != "" }, "{host} requires a token, and who issues it can't be found out.", "check the network; if the server has no login, " + useToken},
	{status.Unauthorized, nil, "{host} requires a token, and says nothing of a login (OAuth).", "create a token on the website of the server's owner, " + useToken + ", and set that variable"},
	{status.BadStatus, func(o output) bool { return o.fault.Code == 404 }, "{address} has no MCP server (HTTP 404).", "correct the path of the url: it is often /mcp, or /sse with older servers"},
	{status.BadStatus, func(o output) bool {
		return (o.fault.Code == 405 || o.fault.Code == 400) && o.entry.Transport != config.AutoHTTP
	}, "{host} does not speak {transport} (HTTP {code}).", `take "type" out of its entry: both types are tried then`},
	{status.BadStatus, func(o output) bool { return o.fault.Code >= 500 }, "{host} has a fault of its own: it answers HTTP {code}.", "try again later, or ask the people who run it"},
	{status.BadStatus, nil, "{host} answers HTTP {code} instead of MCP.", "is this the url of an MCP server? Its documentation has the right one"},
	{status.Redirected, nil, "{message}.", "write that url into its entry, if it is correct"},
	{status.Unreachable, because(status.NoSuchHost), "no computer is called {host}, or the network is down.", "correct the url, or check the network (VPN, DNS)"},
	{status.Unreachable, because(status.ConnectionRefused), "nothing listens at {host}.", "start the server that should be there, or correct the port in the url"},
	{status.Unreachable, because(status.BadCertificate), "the certificate of {host} is not trusted.",
		"if it is your company's own, set SSL_CERT_FILE to the file of its certificate authority where the client is started; else do not use this server"},
	{status.Unreachable, because(status.NotTLS), "{host} does not speak https.", "write http:// instead of https:// in the url, if that is intended"},
	{status.Unreachable, because(status.NoAnswer), "{host} does not answer.", "is a VPN or a proxy (HTTPS_PROXY) needed to reach it? Else its port may be wrong"},
	{status.Unreachable, nil, "{host} can't be reached.", "check the url and the network"},
	{status.OtherFault, listing, "its tools can't be listed: {message}.", reportIt},
	{status.OtherFault, nil, "it does not start: {message}.", "{rerun}"},
}

func listing(o output) bool { return o.fault.Listing }

func because(why string) func(output) bool { return func(o output) bool { return o.fault.Net == why } }

// explainFailure says why a server does not run, and how to fix it. details are lines that it printed, or its answer.
func explainFailure(c Case, entry config.Server, s status.Status) (problem, fix string, details []string) {
	f := s.Fault
	o := output{world: c.World, entry: entry, fault: f, stray: s.StrayLines, strayLine: s.StrayLine}
	switch {
	case f == nil && s.LastError != "" && s.State != status.Starting:
		return fmt.Sprintf("it is %s: %s.", s.State, s.LastError), o.rerun(), nil
	case f == nil:
		return "it is still starting.", "wait and run this again; or give it more time with \"startTimeout\": \"5m\" in its entry", nil
	}
	o.lines = f.Said
	if (f.Kind == status.TimedOut || f.Kind == status.PrintsText) && len(o.lines) == 0 {
		o.lines = s.Stderr
	}
	if problem, fix, ok := explainPrinted(o); ok {
		return problem, fix, tail(o.lines)
	}
	switch {
	case f.Kind == status.FetchFailed, f.Kind == status.Exited, f.Kind == status.TimedOut, f.Kind == status.PrintsText:
		details = tail(o.lines)
	case f.Kind == status.Unauthorized, f.Kind == status.BadStatus && f.Code != 404, f.Kind == status.Unreachable:
		details = tail([]string{strings.TrimPrefix(strings.TrimPrefix(f.Message, f.Login.Text()), ": ")})
	}
	for _, row := range failures {
		if row.kind == f.Kind && (row.applies == nil || row.applies(o)) {
			return o.fill(row.problem, nil), o.fill(row.fix, nil), details
		}
	}
	return "it does not start: " + f.Message + ".", o.rerun(), details
}

// checkRestarts names the last fault of a server that runs now.
func checkRestarts(x *findings, entry config.Server, s status.Status) {
	switch {
	case s.Reverted:
		x.add(Broken, "its edited entry does not start; the one before the edit is still running: "+s.LastError+".", "correct the entry, or undo the edit")
	case s.Fault != nil && s.Restarts > 0:
		x.add(Warning, fmt.Sprintf("it runs now, but before that it ended or failed to start %s. The last reason: %s.", prose.Count(s.Restarts, "time"), s.LastError), output{entry: entry}.rerun())
	}
}

// program returns the command of the fault, without secrets.
func (o output) program() string {
	return strings.Join(secret.Words(strings.Fields(o.fault.Command), "…"), " ")
}

func (o output) isPath() bool {
	return filepath.Base(o.program()) != o.program() || strings.Contains(o.program(), "/")
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

func (o output) isScript() bool { return interpreters[filepath.Ext(o.path())] != "" }

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
	script := append(strings.Fields(interpreters[filepath.Ext(o.path())]), o.path())
	return []string{
		"{program}", o.program(), "{path}", o.path(), "{here}", o.world.Folder, "{like}", o.like(), "{PATH}", path + " (" + f.Path + ")",
		"{installed}", cmp.Or(installers[o.program()], install), "{interpreter}", script[0], "{script}", quoted(append(script[1:], o.entry.Args...)),
		"{message}", f.Message, "{quoted}", strconv.Quote(console.Cut(f.Message, 80)), "{cwd}", f.Folder, "{rerun}", o.rerun(), "{hand}", byHand(o.entry), "{ended}", o.ended(),
		"{doing}", f.Doing, "{after}", short(f.After), "{longer}", fmt.Sprintf(`"startTimeout": "%.0fm"`, max(3, 2*f.After.Minutes())), "{example}", example(o.strayLine),
		"{code}", strconv.Itoa(f.Code), "{protocol}", strconv.Quote(f.Protocol), "{secret}", cmp.Or(f.Command, "correct the reference in its entry, or what it names"),
		"{server}", commandline.Quote(plain.Line(o.entry.Name)), "{variable}", strings.ToUpper(noVariable().ReplaceAllString(o.entry.Name, "_")) + "_TOKEN",
		"{host}", host(o.entry), "{address}", BareURL(o.entry),
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

// host returns the host of a remote entry, which holds no secret.
func host(entry config.Server) string {
	if u, err := url.Parse(entry.URL); err == nil && u.Host != "" {
		return u.Host
	}
	return "its url"
}

// BareURL returns a remote entry's url without the parts that may be secret.
func BareURL(entry config.Server) string {
	u, err := url.Parse(entry.URL)
	if err != nil || u.Host == "" {
		return "its url"
	}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return secret.URL(bare.String(), "…")
}

// example quotes a stray line on stdout, if it is known.
func example(line string) string {
	if line == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", console.Cut(line, 80))
}

// rerun says how to see more of a server that fails.
func (o output) rerun() string {
	if o.entry.Transport != config.Stdio {
		return "check that the url is correct and the server is running"
	}
	return "run it in a terminal to see more: " + byHand(o.entry)
}

// tail returns the last lines, without those that say nothing about the cause.
func tail(lines []string) []string {
	const most = 5
	var kept []string
	for _, line := range lines {
		if line = strings.TrimSpace(plain.Line(line)); line != "" && !noise().MatchString(line) {
			kept = append(kept, console.Cut(line, 160))
		}
	}
	return kept[max(0, len(kept)-most):]
}

// noise matches lines that say nothing about why a program ended: frames of a stack, and
// lines that npm and Node always print.
var noise = lazy.Regexp(`^at .*:\d+|^Node\.js v\d|^[]{}()\[,;^~]+$|^(code: |requireStack)|^npm (warn|notice)\b|A complete log of this run|^npm (error|ERR!)( 404)?$|^node:internal/|^File ".*", line \d+, in `)

// short prints a duration in seconds.
func short(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// concealed returns the status without secrets and unprintable characters in the server's answers.
// The supervisor has removed them from the lines on stderr.
func concealed(entry config.Server, s status.Status) status.Status {
	hide := entry.Launch().Concealer()
	conceal := func(text string) string { return hide(plain.Line(text)) }
	s.LastError, s.StrayLine, s.Outdated = conceal(s.LastError), conceal(s.StrayLine), conceal(s.Outdated)
	if s.Fault != nil {
		f := *s.Fault
		f.Message = conceal(f.Message)
		s.Fault = &f
	}
	return s
}

// quoted returns words as the elements of a JSON array.
func quoted(words []string) string {
	var all []string
	for _, w := range secret.Words(words, "…") {
		all = append(all, strconv.Quote(w))
	}
	return strings.Join(all, ", ")
}

// CommandLine returns the entry's command as a person types it, without secrets.
func CommandLine(entry config.Server) string {
	words := secret.Words(append([]string{entry.Command}, entry.Args...), "…")
	for i, w := range words {
		words[i] = commandline.Quote(plain.Line(w))
	}
	return console.Cut(strings.Join(words, " "), 500)
}

// byHand returns the command line with the folder in which it runs.
func byHand(entry config.Server) string {
	line := CommandLine(entry)
	if entry.Cwd != "" {
		return fmt.Sprintf("cd %s && %s", commandline.Quote(plain.Line(entry.Cwd)), line)
	}
	return line
}
