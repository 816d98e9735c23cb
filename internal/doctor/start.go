package doctor

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// down says why a server does not run.
func (x *examiner) down(entry config.Server, s supervisor.Status) {
	f := s.Fault
	if f == nil {
		switch {
		case s.LastError != "" && s.State != supervisor.Starting:
			x.find(Broken, fmt.Sprintf("it is %s: %s.", s.State, s.LastError), x.rerun(entry))
		default:
			x.find(Broken, "it is still starting.", "wait, and run this again; or give it longer with \"startTimeout\": \"5m\" in its entry")
		}
		return
	}
	said := f.Said
	if f.Kind == supervisor.TimedOut && len(said) == 0 {
		said = s.Stderr
	}
	if problem, fix, ok := explainWords(words{entry: entry, fault: f, said: said}); ok {
		x.find(Broken, problem, fix, tail(said)...)
		return
	}
	switch f.Kind {
	case supervisor.CommandMissing:
		x.commandMissing(entry, f)
	case supervisor.CommandUnusable, supervisor.InterpreterMissing:
		x.commandUnusable(entry, f)
	case supervisor.FolderMissing:
		x.find(Broken, fmt.Sprintf("the folder that it is to run in, %s, is not there.", f.Folder), fmt.Sprintf(`create it (mkdir -p %s), or correct "cwd" in its entry`, f.Folder))
	case supervisor.FetchFailed:
		x.find(Broken, fmt.Sprintf("%s could not fetch %s.", f.Command, strings.Join(f.Fetches, ", ")), x.rerun(entry), tail(said)...)
	case supervisor.Exited:
		x.exited(entry, f)
	case supervisor.TimedOut:
		x.timedOut(entry, s, said)
	case supervisor.Refused:
		x.find(Broken, fmt.Sprintf("it answers %s with an error: %s (%d).", request(f), f.Message, f.Code), "this is for the server's authors to mend: update it, or report it to them")
	case supervisor.WrongProtocol:
		x.find(Broken, fmt.Sprintf("it speaks the protocol %q, which is none that metarouter knows.", f.Protocol), "update the server, or metarouter if the server is the newer one")
	default:
		x.remote(entry, s)
	}
}

// request says what was asked of a server.
func request(f *supervisor.Fault) string {
	if f.Listing {
		return "the question for its tools"
	}
	return "the first message"
}

// afterwards says what was wrong with a server that runs.
func (x *examiner) afterwards(entry config.Server, s supervisor.Status) {
	switch {
	case s.Reverted:
		x.find(Broken, "its edited entry does not start; the one before the edit is still running: "+s.LastError+".", "correct the entry, or undo the edit")
	case s.Fault != nil && s.Restarts > 0:
		x.find(Warning, fmt.Sprintf("it runs now, and ended or did not start %s before: %s.", counted(s.Restarts, "time"), s.LastError), x.rerun(entry))
	}
}

func (x *examiner) commandMissing(entry config.Server, f *supervisor.Fault) {
	missing := func(problem, fix string) { x.find(Broken, problem, fix) }
	name := strings.Join(secret.Words(strings.Fields(f.Command), "…"), " ")
	if first, rest, ok := strings.Cut(strings.TrimSpace(f.Command), " "); ok && x.World.Has(first) {
		args := append(strings.Fields(rest), entry.Args...)
		missing(fmt.Sprintf(`its "command" is %q, and no program is called that: the arguments belong into "args".`, name),
			fmt.Sprintf(`write "command": %q, "args": [%s]`, first, quoted(args)))
		return
	}
	if filepath.Base(name) != name || strings.Contains(name, "/") {
		where := name
		if !filepath.IsAbs(where) && entry.Cwd != "" {
			where = filepath.Join(entry.Cwd, where)
		}
		fix := `correct "command": write the whole path of the program`
		if !filepath.IsAbs(name) && entry.Cwd == "" {
			fix = fmt.Sprintf(`write its whole path, or "cwd": a relative path starts from the folder in which metarouter was started, which is %s now and can be another with each client`, x.World.Folder())
		}
		missing(fmt.Sprintf("there is no program %s.", where), fix)
		return
	}
	if at := x.World.Elsewhere(name); at != "" {
		missing(fmt.Sprintf(`the command %q is in no folder of the PATH (%s).`, name, f.Path), fmt.Sprintf(`write "command": %q`, at))
		return
	}
	if like := x.World.Like(name); like != "" {
		missing(fmt.Sprintf("no program is called %q.", name), fmt.Sprintf(`did you mean %q? Write "command": %[1]q`, like))
		return
	}
	whose := "the PATH"
	if entry.Env["PATH"] != "" {
		whose = `the PATH of its "env"`
	}
	problem := fmt.Sprintf("the command %q was not found: not in %s (%s), nor in your login shell's, nor where nvm, fnm, volta, mise, asdf, Homebrew and the like keep programs.", name, whose, f.Path)
	if isShort(f.Path) {
		problem += " This PATH is the short one that programs get that were started from the Dock or a menu."
	}
	if how, ok := installers[name]; ok {
		missing(problem, how)
		return
	}
	missing(problem, fmt.Sprintf(`install it; if "which %s" finds it in a terminal ("where %[1]s" on Windows), write the path that this prints as "command"`, name))
}

// installers say how to get the programs that servers are usually started with.
var installers = map[string]string{
	"npx":     "install Node.js, which brings npx: https://nodejs.org",
	"npm":     "install Node.js, which brings npm: https://nodejs.org",
	"node":    "install Node.js: https://nodejs.org",
	"uvx":     "install uv, which brings uvx: curl -LsSf https://astral.sh/uv/install.sh | sh",
	"uv":      "install uv: curl -LsSf https://astral.sh/uv/install.sh | sh",
	"python":  `install Python, or write "command": "python3": many systems have it only by that name`,
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

// interpreters run files by what their names end in.
var interpreters = map[string]string{".py": "python3", ".js": "node", ".mjs": "node", ".cjs": "node", ".sh": "sh", ".rb": "ruby", ".php": "php", ".jar": "java -jar", ".ts": "npx tsx"}

func (x *examiner) commandUnusable(entry config.Server, f *supervisor.Fault) {
	path := f.Command
	if !filepath.IsAbs(path) && entry.Cwd != "" {
		path = filepath.Join(entry.Cwd, path)
	}
	if x.World.IsFolder(path) {
		x.find(Broken, fmt.Sprintf("its command %s is a folder.", path), `write the path of the program in it as "command"`)
		return
	}
	if with, ok := interpreters[filepath.Ext(path)]; ok {
		words := append(strings.Fields(with), path)
		x.find(Broken, fmt.Sprintf("%s is a file that another program has to run.", path),
			fmt.Sprintf(`write "command": %q, "args": [%s]`, words[0], quoted(append(words[1:], entry.Args...))))
		return
	}
	if f.Kind == supervisor.InterpreterMissing {
		x.find(Broken, fmt.Sprintf("%s is a script, and the program that its first line names is not there.", path),
			fmt.Sprintf(`see what it wants (head -1 %s) and install that; or write the program that is to run it as "command", and its path first into "args"`, path))
		return
	}
	x.find(Broken, fmt.Sprintf("%s is there, and the system can't run it: %s.", path, f.Message),
		fmt.Sprintf("if it is a program for this system, allow it to be run (chmod +x %s); a script's first line must name a program that is there, such as #!/usr/bin/env node", path))
}

func (x *examiner) exited(entry config.Server, f *supervisor.Fault) {
	when := "after " + short(f.After)
	if f.After < 3*time.Second {
		when = "at once"
	}
	how := fmt.Sprintf("it ended %s with status %d", when, f.Code)
	if f.Signal != "" {
		how = fmt.Sprintf("it was ended %s by %s", when, strings.TrimPrefix(f.Signal, "signal: "))
	}
	fix := x.rerun(entry)
	switch {
	case f.Signal == "signal: killed":
		fix = "the system may have run out of memory: close something, or look into its log (dmesg, Console)"
	case f.Code == 0 && f.Signal == "" && !f.Spoke:
		how = fmt.Sprintf("it ended %s, without an error and without a word of MCP", when)
		fix = `is this the right program? Many need an argument to be a server, such as "mcp", "serve" or "stdio": see its README, and put it into "args"`
	}
	where := ""
	switch {
	case f.Listing:
		where = " when it was asked for its tools"
	case f.Spoke:
		where = " in the middle of the conversation"
	}
	if len(f.Said) == 0 {
		x.find(Broken, fmt.Sprintf("%s%s, and printed no reason.", how, where), fix)
		return
	}
	x.find(Broken, fmt.Sprintf("%s%s; it printed what follows.", how, where), fix, tail(f.Said)...)
}

func (x *examiner) timedOut(entry config.Server, s supervisor.Status, said []string) {
	f := s.Fault
	longer := fmt.Sprintf(`"startTimeout": "%.0fm"`, max(3, 2*f.After.Minutes()))
	switch {
	case f.Doing != "":
		x.find(Broken, fmt.Sprintf("%s, and was not done within %s.", f.Doing, short(f.After)),
			fmt.Sprintf("is the network slow? Fetch it once by hand (%s), or write %s into its entry", byHand(entry), longer))
	case f.Listing:
		x.find(Broken, fmt.Sprintf("it answers, and did not list its tools within %s.", short(f.After)), "write "+longer+" into its entry if it needs longer; else this is for its authors to mend", tail(said)...)
	case entry.Transport != config.Stdio:
		x.find(Broken, fmt.Sprintf("%s takes connections and did not answer within %s.", host(entry), short(f.After)), "is this the url of an MCP server? If it only needs longer, write "+longer+" into its entry")
	case s.StrayLines > 0:
		x.find(Broken, fmt.Sprintf("it runs and prints text instead of MCP messages%s, and did not answer within %s.", example(s), short(f.After)),
			`is this program an MCP server, and told to speak over stdin and stdout? Many need an argument such as "mcp" or "stdio": see its README`, tail(said)...)
	default:
		x.find(Broken, fmt.Sprintf("it runs and did not answer within %s.", short(f.After)),
			fmt.Sprintf(`is this program an MCP server, and told to speak over stdin and stdout? If it only needs longer, write %s into its entry`, longer), tail(said)...)
	}
}

// remote says why a server over HTTP can't be used, and whatever no other rule knows.
func (x *examiner) remote(entry config.Server, s supervisor.Status) {
	f := s.Fault
	switch {
	case f.Kind == supervisor.Unauthorized && f.HadToken:
		x.find(Broken, fmt.Sprintf("%s refuses the token in the entry's \"Authorization\" header (HTTP %d).", host(entry), f.Code),
			"has it expired, or is it for something else? Make a new one where the server's owner has them, and set its variable")
	case f.Kind == supervisor.Unauthorized:
		x.find(Broken, host(entry)+" wants a token.", fmt.Sprintf(`write "headers": {"Authorization": "Bearer ${%s}"} into its entry and set that variable; where there is only a sign-in in the browser (OAuth), write "command": "npx", "args": ["-y", "mcp-remote", %q] instead of the url`, variableOf(entry.Name), bareURL(entry)))
	case f.Kind == supervisor.BadStatus && f.Code == 404:
		x.find(Broken, fmt.Sprintf("there is no MCP server at %s (HTTP 404).", bareURL(entry)), "correct the path of the url: it is often /mcp, or /sse with older servers")
	case f.Kind == supervisor.BadStatus && (f.Code == 405 || f.Code == 400) && entry.Transport != config.AutoHTTP:
		x.find(Broken, fmt.Sprintf("%s does not speak %q (HTTP %d).", host(entry), entry.Transport, f.Code), `take "type" out of its entry: both kinds are tried then`)
	case f.Kind == supervisor.BadStatus && f.Code >= 500:
		x.find(Broken, fmt.Sprintf("%s is in trouble itself: it answers HTTP %d.", host(entry), f.Code), "try again later, or ask whoever runs it", oneLine(f.Message)...)
	case f.Kind == supervisor.BadStatus:
		x.find(Broken, fmt.Sprintf("%s answers HTTP %d instead of MCP.", host(entry), f.Code), "is this the url of an MCP server? Its documentation has the right one", oneLine(f.Message)...)
	case f.Kind == supervisor.Redirected:
		x.find(Broken, f.Message+".", "put that url into its entry, if it is right")
	case f.Kind == supervisor.Unreachable:
		problem, fix := unreachable(f.Net, entry)
		x.find(Broken, problem, fix, oneLine(f.Message)...)
	case f.Listing:
		x.find(Broken, "its tools can't be had: "+f.Message+".", "this is for the server's authors to mend: update it, or report it to them")
	default:
		x.find(Broken, "it does not start: "+f.Message+".", x.rerun(entry))
	}
}

// unreachable says why there is no connection.
func unreachable(why string, entry config.Server) (problem, fix string) {
	at := host(entry)
	switch why {
	case supervisor.NoSuchHost:
		return fmt.Sprintf("there is no computer called %s, or no network.", at), "correct the url, or see whether the network (VPN, DNS) is there"
	case supervisor.ConnectionRefused:
		return fmt.Sprintf("nothing listens at %s.", at), "start the server that should be there, or correct the port in the url"
	case supervisor.BadCertificate:
		return fmt.Sprintf("the certificate of %s is not trusted.", at), "if it is your company's own, have SSL_CERT_FILE name the file of its authority where the client is started; else do not use this server"
	case supervisor.NotTLS:
		return fmt.Sprintf("%s does not speak https.", at), "write http:// instead of https:// in the url, if that is meant"
	case supervisor.NoAnswer:
		return fmt.Sprintf("%s does not answer.", at), "is a VPN or a proxy (HTTPS_PROXY) needed to reach it? Else its port may be wrong"
	}
	return fmt.Sprintf("%s can't be reached.", at), "see whether the url is right and the network is there"
}

// host returns the host of a remote entry, which holds no secret.
func host(entry config.Server) string {
	if u, err := url.Parse(entry.URL); err == nil && u.Host != "" {
		return u.Host
	}
	return "its url"
}

// bareURL returns a remote entry's url without what may be a secret in it.
func bareURL(entry config.Server) string {
	u, err := url.Parse(entry.URL)
	if err != nil || u.Host == "" {
		return "its url"
	}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return secret.URL(bare.String(), "…")
}

func example(s supervisor.Status) string {
	if s.StrayLine == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", clip(s.StrayLine, 80))
}

// rerun says how to see more of a server that fails.
func (x *examiner) rerun(entry config.Server) string {
	if entry.Transport != config.Stdio {
		return "see whether the url is right and the server is up"
	}
	return "run it in a terminal to see more: " + byHand(entry)
}

// tail returns the last lines that are worth showing.
func tail(lines []string) []string {
	const most = 5
	var kept []string
	for _, line := range lines {
		if line = strings.TrimSpace(supervisor.Plain(line)); line != "" && !noise().MatchString(line) {
			kept = append(kept, clip(line, 160))
		}
	}
	return kept[max(0, len(kept)-most):]
}

// noise matches lines that say nothing of why a program ended: frames of a stack, and
// what npm and Node always say.
var noise = re(`^at .*:\d+|^Node\.js v\d|^[]{}()\[,;^~]+$|^(code: |requireStack)|^npm (warn|notice)\b|A complete log of this run|^npm (error|ERR!)( 404)?$|^node:internal/|^File ".*", line \d+, in `)

func oneLine(text string) []string {
	if text == "" {
		return nil
	}
	return tail([]string{text})
}

// short prints a duration as people say it.
func short(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
