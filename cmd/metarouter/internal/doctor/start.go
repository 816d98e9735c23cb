package doctor

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// explainFailure says why a server does not run, and how to fix it. details are lines that it printed.
func explainFailure(c Case, entry config.Server, s status.Status) (problem, fix string, details []string) {
	f := s.Fault
	switch {
	case f == nil && s.LastError != "" && s.State != status.Starting:
		return fmt.Sprintf("it is %s: %s.", s.State, s.LastError), rerun(entry), nil
	case f == nil:
		return "it is still starting.", "wait and run this again; or give it more time with \"startTimeout\": \"5m\" in its entry", nil
	}
	printed := f.Said
	if (f.Kind == status.TimedOut || f.Kind == status.PrintsText) && len(printed) == 0 {
		printed = s.Stderr
	}
	if problem, fix, ok := explainPrinted(output{entry: entry, fault: f, lines: printed}); ok {
		return problem, fix, tail(printed)
	}
	switch f.Kind {
	case status.CommandMissing:
		return explainMissingCommand(c, entry, f)
	case status.CommandUnusable, status.InterpreterMissing:
		return explainUnusableCommand(c, entry, f)
	case status.FolderMissing:
		return fmt.Sprintf("the folder that it should run in, %s, does not exist.", f.Folder), `make the folder, or correct "cwd" in its entry`, nil
	case status.FetchFailed:
		fix = rerun(entry)
		if len(printed) == 0 && strings.HasPrefix(f.Command, "np") {
			fix = "read npm's newest log in the folder ~/.npm/_logs, or that of its \"cache\" setting; then " + fix
		}
		return fmt.Sprintf("%s could not fetch %s.", f.Command, strings.Join(f.Fetches, ", ")), fix, tail(printed)
	case status.Exited:
		return explainExit(entry, f)
	case status.TimedOut:
		return explainTimeout(entry, s, printed)
	case status.Refused:
		return fmt.Sprintf("it answers %s with an error: %s (%d).", request(f), f.Message, f.Code), "update the server, or report this to its authors", nil
	case status.NoSecret:
		return f.Message + ".", cmp.Or(f.Command, "correct the reference in its entry, or what it names") + "; then run: metarouter restart " + entry.Name, nil
	case status.PrintsText:
		return fmt.Sprintf("it prints text, not JSON-RPC messages (%q).", clip(f.Message, 80)), readsReadme, tail(printed)
	case status.WrongProtocol:
		return fmt.Sprintf("it speaks version %q of the protocol, which metarouter does not know.", f.Protocol),
			"update the server; if the server is newer than metarouter, update metarouter", nil
	}
	return explainRemote(entry, s)
}

// request names the request that the server has not answered well.
func request(f *status.Fault) string {
	if f.Listing {
		return "the request for its tools"
	}
	return "the first MCP message (server/discover or initialize)"
}

// checkRestarts names the last fault of a server that runs now.
func checkRestarts(x *findings, entry config.Server, s status.Status) {
	switch {
	case s.Reverted:
		x.add(Broken, "its edited entry does not start; the one before the edit is still running: "+s.LastError+".", "correct the entry, or undo the edit")
	case s.Fault != nil && s.Restarts > 0:
		x.add(Warning, fmt.Sprintf("it runs now, but before that it ended or failed to start %s. The last reason: %s.", prose.Count(s.Restarts, "time"), s.LastError), rerun(entry))
	}
}

func explainMissingCommand(c Case, entry config.Server, f *status.Fault) (problem, fix string, details []string) {
	name := strings.Join(secret.Words(strings.Fields(f.Command), "…"), " ")
	if filepath.Base(name) != name || strings.Contains(name, "/") {
		where := name
		if !filepath.IsAbs(where) && entry.Cwd != "" {
			where = filepath.Join(entry.Cwd, where)
		}
		fix = `correct "command": write the absolute path of the program`
		if !filepath.IsAbs(name) && entry.Cwd == "" {
			fix = fmt.Sprintf(`write its absolute path, or set "cwd". A relative path is resolved in the folder in which metarouter was started: now %s, but each client may start it in another folder`, c.World.Folder())
		}
		return fmt.Sprintf("the program %s does not exist.", where), fix, nil
	}
	if at := c.World.Elsewhere(name); at != "" {
		return fmt.Sprintf(`the command %q is in no folder of the PATH (%s).`, name, f.Path), fmt.Sprintf(`write "command": %q`, at), nil
	}
	if like := c.World.Like(name); like != "" {
		return fmt.Sprintf("no program is called %q.", name), fmt.Sprintf(`write "command": %q, if you mean that program`, like), nil
	}
	path := "the PATH"
	if entry.Env["PATH"] != "" {
		path = `the PATH of its "env"`
	}
	problem = fmt.Sprintf("the command %q was not found: not in %s (%s), nor in your login shell's, nor where nvm, fnm, volta, mise, asdf, Homebrew and similar tools keep programs.", name, path, f.Path)
	if isShort(f.Path) {
		problem += " This PATH is the short one of programs that are started from the Dock or a menu."
	}
	if how, ok := installers[name]; ok {
		return problem, how, nil
	}
	return problem, fmt.Sprintf(`install it; if "which %s" finds it in a terminal ("where %[1]s" on Windows), write the path that this prints as "command"`, name), nil
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
	"pipx":    "install pipx: python3 -m pip install --user pipx",
	"docker":  "install Docker: https://docs.docker.com/get-docker",
	"podman":  "install Podman: https://podman.io",
	"bun":     "install Bun: curl -fsSL https://bun.sh/install | bash",
	"bunx":    "install Bun, which brings bunx: curl -fsSL https://bun.sh/install | bash",
	"deno":    "install Deno: curl -fsSL https://deno.land/install.sh | sh",
	"pnpm":    "install pnpm: npm install -g pnpm",
	"yarn":    "install yarn: npm install -g yarn",
	"go":      "install Go: https://go.dev/dl",
	"cargo":   "install Rust: https://rustup.rs",
	"java":    "install Java: https://adoptium.net",
	"dotnet":  "install .NET: https://dotnet.microsoft.com/download",
	"ruby":    "install Ruby: https://www.ruby-lang.org",
	"php":     "install PHP: https://www.php.net/downloads",
}

// isShort reports whether a PATH has only folders of the system.
func isShort(path string) bool {
	for _, folder := range filepath.SplitList(path) {
		switch filepath.Clean(folder) {
		case "/usr/bin", "/bin", "/usr/sbin", "/sbin", ".":
		default:
			return false
		}
	}
	return true
}

// interpreters says which program runs a file, by the extension of its name.
var interpreters = map[string]string{".py": "python3", ".js": "node", ".mjs": "node", ".cjs": "node", ".sh": "sh", ".rb": "ruby", ".php": "php", ".jar": "java -jar", ".ts": "npx tsx"}

func explainUnusableCommand(c Case, entry config.Server, f *status.Fault) (problem, fix string, details []string) {
	path := f.Command
	if !filepath.IsAbs(path) && entry.Cwd != "" {
		path = filepath.Join(entry.Cwd, path)
	}
	if c.World.IsFolder(path) {
		return fmt.Sprintf("its command %s is a folder.", path), `write the path of the program in it as "command"`, nil
	}
	if with, ok := interpreters[filepath.Ext(path)]; ok {
		words := append(strings.Fields(with), path)
		return fmt.Sprintf("%s is a file that another program must run.", path),
			fmt.Sprintf(`write "command": %q, "args": [%s]`, words[0], quoted(append(words[1:], entry.Args...))), nil
	}
	if f.Kind == status.InterpreterMissing {
		return fmt.Sprintf("%s is a script, and the program that its first line names does not exist.", path),
			fmt.Sprintf(`see which program it needs (head -1 %s) and install that; or write the program that runs it as "command", and the path of the script as the first of "args"`, path), nil
	}
	return fmt.Sprintf("%s exists, but the system can't run it: %s.", path, f.Message),
		fmt.Sprintf("if it is a program for this system, make it executable (chmod +x %s); the first line of a script must name an existing program, such as #!/usr/bin/env node", path), nil
}

func explainExit(entry config.Server, f *status.Fault) (problem, fix string, details []string) {
	when := "after " + short(f.After)
	if f.After < 3*time.Second {
		when = "at once"
	}
	how := fmt.Sprintf("it ended %s with status %d", when, f.Code)
	if f.Signal != "" {
		how = fmt.Sprintf("it was ended %s by %s", when, strings.TrimPrefix(f.Signal, "signal: "))
	}
	fix = rerun(entry)
	switch {
	case f.Signal == "signal: killed":
		fix = "the system may have run out of memory: close other programs, or look into the log of the system (dmesg, Console)"
	case f.Code == 0 && f.Signal == "" && !f.Spoke:
		how = fmt.Sprintf("it ended %s, without an error and without an MCP message", when)
		fix = `is this the right program? Many programs need an argument to be a server, such as "mcp", "serve" or "stdio": see the README, and write the argument into "args"`
	}
	where := ""
	switch {
	case f.Listing:
		where = " after metarouter requested the list of its tools"
	case f.Spoke:
		where = " in the middle of the conversation"
	}
	if len(f.Said) == 0 {
		return fmt.Sprintf("%s%s, and printed no reason.", how, where), fix, nil
	}
	return fmt.Sprintf("%s%s; it printed the lines below.", how, where), fix, tail(f.Said)
}

const readsReadme = `is this program an MCP server, and does it use stdin and stdout? Many programs need an argument such as "mcp" or "stdio": see the README`

func explainTimeout(entry config.Server, s status.Status, printed []string) (problem, fix string, details []string) {
	f := s.Fault
	longer := fmt.Sprintf(`"startTimeout": "%.0fm"`, max(3, 2*f.After.Minutes()))
	switch {
	case f.Doing != "":
		return fmt.Sprintf("%s, and had not finished after %s.", f.Doing, short(f.After)),
			fmt.Sprintf("is the network slow? Fetch the package once by hand (%s), or write %s into its entry", byHand(entry), longer), nil
	case f.Listing:
		return fmt.Sprintf("it answers, but it did not list its tools within %s.", short(f.After)),
			"write " + longer + " into its entry if it needs more time; else report this to its authors", tail(printed)
	case entry.Transport != config.Stdio:
		return fmt.Sprintf("%s accepts connections, but did not answer within %s.", host(entry), short(f.After)),
			"is this the url of an MCP server? If it only needs more time, write " + longer + " into its entry", nil
	case s.StrayLines > 0:
		return fmt.Sprintf("it runs, but prints text instead of MCP messages%s, and did not answer within %s.", example(s), short(f.After)), readsReadme, tail(printed)
	}
	return fmt.Sprintf("it runs, but did not answer within %s.", short(f.After)),
		fmt.Sprintf(`is this program an MCP server, and does it use stdin and stdout, one message a line? metarouter sends Content-Length headers only to a server that has written one. If it only needs more time, write %s into its entry`, longer), tail(printed)
}

// explainRemote says why a server over HTTP can't be used. It also explains every fault
// that no other rule knows.
func explainRemote(entry config.Server, s status.Status) (problem, fix string, details []string) {
	f := s.Fault
	switch {
	case f.Kind == status.Unauthorized && f.HadToken && f.Login == "" && f.Message == "":
		return fmt.Sprintf("%s refuses the token in the entry's \"Authorization\" header (HTTP %d).", host(entry), f.Code),
			"the token may have expired, or belong to another service: create a new one on the website of the server's owner, and set its variable to it", nil
	case f.Kind == status.Unauthorized && f.Login != "":
		return explainLogin(entry, f)
	case f.Kind == status.Unauthorized && f.Message != "":
		problem, fix = explainNoToken(entry, f)
		return problem, fix, oneLine(f.Message)
	case f.Kind == status.Unauthorized:
		return host(entry) + " requires a token, and says nothing of a login (OAuth).",
			fmt.Sprintf(`create a token on the website of the server's owner, write "headers": {"Authorization": "Bearer ${%s}"} into its entry, and set that variable`, variableOf(entry.Name)), nil
	case f.Kind == status.BadStatus && f.Code == 404:
		return fmt.Sprintf("%s has no MCP server (HTTP 404).", bareURL(entry)), "correct the path of the url: it is often /mcp, or /sse with older servers", nil
	case f.Kind == status.BadStatus && (f.Code == 405 || f.Code == 400) && entry.Transport != config.AutoHTTP:
		return fmt.Sprintf("%s does not speak %q (HTTP %d).", host(entry), entry.Transport, f.Code), `take "type" out of its entry: both types are tried then`, nil
	case f.Kind == status.BadStatus && f.Code >= 500:
		return fmt.Sprintf("%s has a fault of its own: it answers HTTP %d.", host(entry), f.Code), "try again later, or ask the people who run it", oneLine(f.Message)
	case f.Kind == status.BadStatus:
		return fmt.Sprintf("%s answers HTTP %d instead of MCP.", host(entry), f.Code), "is this the url of an MCP server? Its documentation has the right one", oneLine(f.Message)
	case f.Kind == status.Redirected:
		return f.Message + ".", "write that url into its entry, if it is correct", nil
	case f.Kind == status.Unreachable:
		problem, fix = unreachable(f.Net, entry)
		return problem, fix, oneLine(f.Message)
	case f.Listing:
		return "its tools can't be listed: " + f.Message + ".", "update the server, or report this to its authors", nil
	}
	return "it does not start: " + f.Message + ".", rerun(entry), nil
}

// explainLogin says why a person must log in to a server, and how.
func explainLogin(entry config.Server, f *status.Fault) (problem, fix string, why []string) {
	at := host(entry)
	why = oneLine(strings.TrimPrefix(strings.TrimPrefix(f.Message, f.Login.Text()), ": "))
	problem = fmt.Sprintf("%s requires a login, and %s.", at, f.Login.Text())
	fix = "run: metarouter login " + commandline.Quote(plain.Line(entry.Name))
	switch f.Login {
	case status.IssuerUnreachable:
		fix = "check the network; the next call tries it again"
		if f.Issuer != "" {
			fix = fmt.Sprintf("check whether %s can be reached from here; the next call tries it again", f.Issuer)
		}
	case status.TokenRejected:
		fix += `; if that does not help, the tokens are for another server: set "resource" or "scopes" in "oauth" of its entry as its documentation says`
	case status.ScopeMissing:
		fix += "; the account that you log in with must have that permission"
	}
	return problem, fix, why
}

// explainNoToken says why the router itself gets no token for a server.
func explainNoToken(entry config.Server, f *status.Fault) (problem, fix string) {
	at := host(entry)
	if f.Code == 403 {
		return fmt.Sprintf("%s refuses the router's requests (HTTP 403).", at), "does the account of the login or of the token have access to the server? Else ask the people who run it"
	}
	if entry.OAuth != nil && entry.OAuth.Grant == string(oauth.ClientCredentials) {
		return fmt.Sprintf("%s requires a token, and the router gets none with its client credentials.", at),
			`correct "clientId", and "clientSecret" or "privateKey", in "oauth" of its entry, then run: metarouter restart ` + commandline.Quote(plain.Line(entry.Name))
	}
	return fmt.Sprintf("%s requires a token, and who issues it can't be found out.", at),
		`check the network; if the server has no login, write "headers": {"Authorization": "Bearer ${` + variableOf(entry.Name) + `}"} into its entry`
}

// unreachable says why no connection could be made.
func unreachable(why string, entry config.Server) (problem, fix string) {
	at := host(entry)
	switch why {
	case status.NoSuchHost:
		return fmt.Sprintf("no computer is called %s, or the network is down.", at), "correct the url, or check the network (VPN, DNS)"
	case status.ConnectionRefused:
		return fmt.Sprintf("nothing listens at %s.", at), "start the server that should be there, or correct the port in the url"
	case status.BadCertificate:
		return fmt.Sprintf("the certificate of %s is not trusted.", at), "if it is your company's own, set SSL_CERT_FILE to the file of its certificate authority where the client is started; else do not use this server"
	case status.NotTLS:
		return fmt.Sprintf("%s does not speak https.", at), "write http:// instead of https:// in the url, if that is intended"
	case status.NoAnswer:
		return fmt.Sprintf("%s does not answer.", at), "is a VPN or a proxy (HTTPS_PROXY) needed to reach it? Else its port may be wrong"
	}
	return fmt.Sprintf("%s can't be reached.", at), "check the url and the network"
}

// host returns the host of a remote entry, which holds no secret.
func host(entry config.Server) string {
	if u, err := url.Parse(entry.URL); err == nil && u.Host != "" {
		return u.Host
	}
	return "its url"
}

// bareURL returns a remote entry's url without the parts that may be secret.
func bareURL(entry config.Server) string {
	u, err := url.Parse(entry.URL)
	if err != nil || u.Host == "" {
		return "its url"
	}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return secret.URL(bare.String(), "…")
}

func example(s status.Status) string {
	if s.StrayLine == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", clip(s.StrayLine, 80))
}

// rerun says how to see more of a server that fails.
func rerun(entry config.Server) string {
	if entry.Transport != config.Stdio {
		return "check that the url is correct and the server is running"
	}
	return "run it in a terminal to see more: " + byHand(entry)
}

// tail returns the last lines, without those that say nothing about the cause.
func tail(lines []string) []string {
	const most = 5
	var kept []string
	for _, line := range lines {
		if line = strings.TrimSpace(plain.Line(line)); line != "" && !noise().MatchString(line) {
			kept = append(kept, clip(line, 160))
		}
	}
	return kept[max(0, len(kept)-most):]
}

// noise matches lines that say nothing about why a program ended: frames of a stack, and
// lines that npm and Node always print.
var noise = lazy.Regexp(`^at .*:\d+|^Node\.js v\d|^[]{}()\[,;^~]+$|^(code: |requireStack)|^npm (warn|notice)\b|A complete log of this run|^npm (error|ERR!)( 404)?$|^node:internal/|^File ".*", line \d+, in `)

func oneLine(text string) []string {
	if text == "" {
		return nil
	}
	return tail([]string{text})
}

// short prints a duration in seconds.
func short(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
