package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func caseOf(c config.Config, states ...status.Status) Case {
	return Case{
		Config: c, Servers: states, Catalog: new(registry.Snapshot), World: World{Folder: "/here"},
		Finds: func(string) bool { return true },
	}
}

// stdio is an entry of a command line.
func stdio(line string) config.Server {
	words := strings.Fields(line)
	return config.Server{Name: "s", Transport: config.Stdio, Command: words[0], Args: words[1:]}
}

// Each fault that keeps a server from starting has one sentence for the problem and one for the fix.
func TestStart(t *testing.T) {
	exited := func(code int, said ...string) *status.Fault {
		return &status.Fault{Kind: status.Exited, Code: code, After: 100 * time.Millisecond, Said: said}
	}
	remote := func(u string, kind config.Transport) config.Server {
		return config.Server{Name: "s", Transport: kind, URL: u}
	}
	fetch := func(said ...string) *status.Fault {
		return &status.Fault{Kind: status.FetchFailed, Command: "npx", Fetches: []string{"pkg@1"}, Said: said}
	}
	late := func(said ...string) *status.Fault {
		return &status.Fault{Kind: status.TimedOut, After: 90 * time.Second, Said: said}
	}
	login := func(why status.LoginReason) *status.Fault {
		return &status.Fault{Kind: status.Unauthorized, Code: 401, Login: why, Issuer: "https://i.example"}
	}
	credentials := remote("https://h.example/mcp", config.StreamableHTTP)
	credentials.OAuth = &config.OAuth{Grant: "client_credentials"}
	relative := stdio("./server.sh")
	inFolder := relative
	inFolder.Cwd = "/srv"
	given := stdio("slack")
	given.Env = map[string]string{"SLACK_TOKEN": "x"}
	tests := map[string]struct {
		entry        config.Server
		fault        *status.Fault
		problem, fix string // are in it
	}{
		"near miss":           {stdio("nxp"), &status.Fault{Kind: status.CommandMissing, Command: "nxp"}, `no program is called "nxp"`, `"command": "npx"`},
		"not installed":       {stdio("uvx x"), &status.Fault{Kind: status.CommandMissing, Command: "uvx", Path: "/opt/bin:/bin"}, `"uvx" was not found: not in the PATH (/opt/bin:/bin)`, "install uv"},
		"from the Dock":       {stdio("odd x"), &status.Fault{Kind: status.CommandMissing, Command: "odd", Path: "/usr/bin:/bin:/usr/sbin:/sbin"}, "started from the Dock or a menu", `"which odd"`},
		"a folder":            {stdio("/srv/folder"), &status.Fault{Kind: status.CommandUnusable, Command: "/srv/folder", Message: "is a directory"}, "is a folder", "the path of the program in it"},
		"relative":            {relative, &status.Fault{Kind: status.CommandMissing, Command: "./server.sh"}, "the program ./server.sh does not exist", "now /here"},
		"relative to cwd":     {inFolder, &status.Fault{Kind: status.CommandMissing, Command: "/srv/server.sh"}, "the program /srv/server.sh does not exist", `correct "command"`},
		"a script":            {stdio("/srv/run.py --x"), &status.Fault{Kind: status.CommandUnusable, Command: "/srv/run.py"}, "another program must run", `"command": "python3", "args": ["/srv/run.py", "--x"]`},
		"interpreter":         {stdio("/srv/script"), &status.Fault{Kind: status.InterpreterMissing, Command: "/srv/script"}, "its first line names does not exist", "head -1 /srv/script"},
		"not executable":      {stdio("/srv/bin"), &status.Fault{Kind: status.CommandUnusable, Command: "/srv/bin", Message: "permission denied"}, "permission denied", "chmod +x /srv/bin"},
		"secret in a command": {stdio("x"), &status.Fault{Kind: status.CommandMissing, Command: "odd --token=verysecret"}, `no program "odd --token=…"`, `its arguments into "args"`},
		"no folder":           {stdio("npx"), &status.Fault{Kind: status.FolderMissing, Folder: "/nowhere"}, "/nowhere, does not exist", "make the folder"},

		"no -y":            {stdio("npx pkg@1"), fetch(`npm error npx canceled due to missing packages and no YES option: ["pkg@1"]`), "npx may not fetch pkg@1 without a question", `add "-y" to "args"`},
		"no package":       {stdio("npx -y pkg@1"), fetch("npm error code E404"), "npm does not find the package pkg@1", `"npm view pkg"`},
		"no version":       {stdio("npx -y pkg@1"), fetch("npm ERR! code ETARGET"), "no such version", `"npm view pkg versions"`},
		"no program":       {stdio("npx -y pkg@1"), fetch("npm error could not determine executable to run"), "no program to run", `"-p", "pkg@1"`},
		"no network":       {stdio("npx -y pkg@1"), fetch("npm error code EAI_AGAIN"), "can't reach its registry (EAI_AGAIN)", "HTTPS_PROXY"},
		"not my cache":     {stdio("npx -y pkg@1"), fetch("npm error Your cache folder contains root-owned files"), "another user", "chown"},
		"fetching":         {stdio("npx -y pkg@1"), fetch("what?"), "npx could not fetch pkg@1", "npx -y pkg@1"},
		"silent npx":       {stdio("npx -y pkg"), fetch(), "npx could not fetch pkg@1", "~/.npm/_logs"},
		"slow network":     {stdio("npx -y pkg"), &status.Fault{Kind: status.TimedOut, After: 90 * time.Second, Doing: "npx is fetching pkg"}, "npx is fetching pkg, and had not finished after 90 s", `(npx -y pkg), or write "startTimeout": "3m"`},
		"uv: no package":   {stdio("uvx nope"), exited(1, "  × No solution found when resolving tool dependencies:", "  ╰─▶ Because nope was not found in the package registry and you require nope,"), "PyPI has no package nope", "pypi.org"},
		"uv: no program":   {stdio("uvx x"), exited(1, "An executable named `x` is not provided by package `y`."), "has no program x", `"--from", "y"`},
		"python: new SDK":  {stdio("uvx x"), exited(1, "ImportError: cannot import name 'McpError' from 'mcp' (/home/mcp/__init__.py)"), "MCP library for Python", `"--with", "mcp<2"`},
		"python: a Server": {stdio("python3 x.py"), exited(1, "AttributeError: 'Server' object has no attribute 'list_resources'"), "MCP library for Python", "pip install 'mcp<2'"},
		"docker is down":   {stdio("docker run -i --rm x"), exited(125, "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"), "does not run", "start Docker"},
		"no image":         {stdio("docker run -i --rm x"), exited(125, "Unable to find image 'x/y:latest' locally", "docker: Error response from daemon: pull access denied for x/y, repository does not exist"), "no image x/y", "docker pull x/y"},
		"old node":         {stdio("node x.js"), exited(1, "SyntaxError: Unexpected token '?'", "Node.js v12.0.0"), "too old", "node --version"},
		"missing file":     {stdio("node /srv/server.js"), exited(1, "Error: Cannot find module '/srv/server.js'"), "the file /srv/server.js does not exist", `"args"`},
		"missing module":   {stdio("node /srv/server.js"), exited(1, "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /srv/server.js"), `the module "zod" is not installed`, "npm install in the folder"},
		"env: no node":     {stdio("thing"), exited(127, "env: ‘node’: No such file or directory"), `run by "node"`, "install Node.js"},
		"python module":    {stdio("python3 -m mcp_x.y"), exited(1, "/usr/bin/python3: No module named mcp_x.y"), "does not have the module mcp_x.y", "python3 -m pip install mcp-x"},
		"python file":      {stdio("python3 /srv/a.py"), exited(2, "python3: can't open file '/srv/a.py': [Errno 2] No such file or directory"), "the file /srv/a.py does not exist", "correct the path"},
		"shell":            {stdio("sh -c x"), exited(127, "sh: 1: frobnicate: not found"), `needs "frobnicate"`, "install frobnicate"},
		"cmd":              {stdio("cmd /c x"), exited(1, "'npx' is not recognized as an internal or external command,"), `needs "npx"`, "install Node.js"},
		"port":             {stdio("x"), exited(1, "Error: listen EADDRINUSE: address already in use :::3000"), "port 3000", "another port"},
		"its variable":     {stdio("slack"), exited(1, "Error: SLACK_TOKEN environment variable is required"), "needs the variable SLACK_TOKEN", `"env": {"SLACK_TOKEN": "${SLACK_TOKEN}"}`},
		"please set":       {stdio("slack"), exited(1, "Please set your SLACK_TOKEN first"), "needs the variable SLACK_TOKEN", `"env"`},
		"both variables":   {stdio("slack"), exited(1, "Please set SLACK_BOT_TOKEN and SLACK_TEAM_ID environment variables"), "needs the variables SLACK_BOT_TOKEN, SLACK_TEAM_ID,", `"env": {"SLACK_BOT_TOKEN": "${SLACK_BOT_TOKEN}", "SLACK_TEAM_ID": "${SLACK_TEAM_ID}"}`},
		"an argument":      {stdio("pg"), exited(1, "Please provide a database URL as a command-line argument"), "needs arguments", `"args"`},
		"its value":        {given, exited(1, "SLACK_TOKEN must be set"), "does not accept its variable SLACK_TOKEN", "check the value"},
		"usage":            {stdio("fs"), exited(1, "Usage: mcp-fs <folder> [folder…]"), "does not understand its arguments", "mcp-fs <folder>"},
		"serves over HTTP": {stdio("x"), late("Server running on http://0.0.0.0:3000/mcp (press ^C)"), "over HTTP instead of stdin", `"url": "http://127.0.0.1:3000/mcp"`},
		"pulls an image":   {stdio("docker run -i --rm x"), late("Unable to find image 'x' locally"), "did not answer within 90 s", "startTimeout"},
		"wants headers":    {stdio("x"), late(), "did not answer within 90 s", "only to a server that has written one"},

		"nothing said": {stdio("x"), exited(0), "at once without an error and without an MCP message", "is this the right program"},
		"died":         {stdio("x a"), exited(7, "what a day"), "ended at once with status 7", "run it in a terminal to see more: x a"},
		"killed":       {stdio("x"), &status.Fault{Kind: status.Exited, Signal: "signal: killed", After: time.Minute}, "ended after 60 s by signal: killed", "memory"},
		"in a listing": {stdio("x"), &status.Fault{Kind: status.Exited, Code: 1, Listing: true, Spoke: true}, "after metarouter requested the list of its tools", "run it"},
		"no listing":   {stdio("x"), &status.Fault{Kind: status.TimedOut, Listing: true, After: 90 * time.Second}, "did not list its tools", "startTimeout"},
		"endless list": {stdio("x"), &status.Fault{Kind: status.OtherFault, Listing: true, Message: "more than 1000 pages"}, "tools can't be listed: more than 1000 pages", "authors"},
		"refuses":      {stdio("x"), &status.Fault{Kind: status.Refused, Code: -32603, Message: "no"}, "answers the first MCP message (server/discover or initialize) with an error: no (-32603)", "authors"},
		"text":         {stdio("x"), &status.Fault{Kind: status.PrintsText, Message: "Usage: x"}, `prints text, not JSON-RPC messages ("Usage: x")`, "README"},
		"protocol":     {stdio("x"), &status.Fault{Kind: status.WrongProtocol, Protocol: "1999"}, `version "1999" of the protocol`, "update"},

		"token wanted":  {remote("https://h.example/mcp?key=1", config.StreamableHTTP), &status.Fault{Kind: status.Unauthorized, Code: 401}, "h.example requires a token", `"Bearer ${S_TOKEN}"`},
		"no login":      {remote("https://h.example/mcp", config.StreamableHTTP), login(status.NeverLoggedIn), "h.example requires a login, and nobody has logged in to it yet", "run: metarouter login s"},
		"login over":    {remote("https://h.example/mcp", config.StreamableHTTP), login(status.LoginExpired), "has expired or was revoked", "run: metarouter login s"},
		"issuer away":   {remote("https://h.example/mcp", config.StreamableHTTP), login(status.IssuerUnreachable), "its issuer can't be reached", "whether https://i.example can be reached"},
		"interrupted":   {remote("https://h.example/mcp", config.StreamableHTTP), login(status.RefreshInterrupted), "refresh of its token was interrupted", "run: metarouter login s"},
		"other's token": {remote("https://h.example/mcp", config.StreamableHTTP), login(status.TokenRejected), "a token that was just issued", `set "resource"`},
		"scope":         {remote("https://h.example/mcp", config.StreamableHTTP), login(status.ScopeMissing), "does not permit this call", "run: metarouter login s"},
		"credentials":   {credentials, &status.Fault{Kind: status.Unauthorized, Code: 401, HadToken: true, Message: "invalid_client"}, "gets none with its client credentials", `correct "clientId"`},
		"no access":     {remote("https://h.example/mcp", config.StreamableHTTP), &status.Fault{Kind: status.Unauthorized, Code: 403, HadToken: true, Message: "it forbids"}, "refuses the router's requests (HTTP 403)", "have access"},
		"no issuer":     {remote("https://h.example/mcp", config.StreamableHTTP), &status.Fault{Kind: status.Unauthorized, Code: 401, Message: "timeout"}, "who issues it can't be found out", "check the network"},
		"token refused": {remote("https://h.example/mcp", config.StreamableHTTP), &status.Fault{Kind: status.Unauthorized, Code: 401, HadToken: true}, "refuses the token", "expired"},
		"not there":     {remote("https://h.example/x?key=1", config.StreamableHTTP), &status.Fault{Kind: status.BadStatus, Code: 404}, "https://h.example/x has no MCP server (HTTP 404)", "/mcp"},
		"other type":    {remote("https://h.example/x", config.SSE), &status.Fault{Kind: status.BadStatus, Code: 405}, `does not speak "sse"`, `take "type" out`},
		"its trouble":   {remote("https://h.example/x", config.SSE), &status.Fault{Kind: status.BadStatus, Code: 503}, "HTTP 503", "try again later"},
		"elsewhere now": {remote("https://h.example/x", config.SSE), &status.Fault{Kind: status.Redirected, Message: "it redirects to https://i.example"}, "https://i.example", "write that url"},
		"no host":       {remote("https://h.example/x", config.AutoHTTP), &status.Fault{Kind: status.Unreachable, Net: status.NoSuchHost}, "no computer is called h.example", "correct the url"},
		"refused":       {remote("http://localhost:1/x", config.AutoHTTP), &status.Fault{Kind: status.Unreachable, Net: status.ConnectionRefused}, "nothing listens at localhost:1", "start the server"},
		"certificate":   {remote("https://h.example/x", config.AutoHTTP), &status.Fault{Kind: status.Unreachable, Net: status.BadCertificate}, "is not trusted", "SSL_CERT_FILE"},
		"no TLS":        {remote("https://h.example/x", config.AutoHTTP), &status.Fault{Kind: status.Unreachable, Net: status.NotTLS}, "does not speak https", "http://"},
		"silence":       {remote("https://h.example/x", config.AutoHTTP), &status.Fault{Kind: status.Unreachable, Net: status.NoAnswer}, "does not answer", "VPN"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := config.Config{Servers: []config.Server{tc.entry}}
			r := Examine(caseOf(c, status.Status{Name: "s", State: status.Failed, Fault: tc.fault, LastError: "x"}))
			if len(r.Findings) != 1 || r.OK {
				t.Fatalf("found %+v", r.Findings)
			}
			f := r.Findings[0]
			if f.Server != "s" || f.Severity != Broken || !strings.Contains(f.Problem, tc.problem) || !strings.Contains(f.Fix, tc.fix) {
				t.Errorf("found %q, fix %q", f.Problem, f.Fix)
			}
			if all := f.Problem + f.Fix; strings.Contains(all, "key=1") || strings.Contains(all, "verysecret") {
				t.Errorf("it tells a secret: %s", all)
			}
			expect.Equal(t, r.Verdict, "servers that work: 0 of 1; 1 problem: see above", "verdict")
		})
	}
}

// offer is a catalog of one server's tools, and of those left out.
func offer(t *testing.T, dropped []registry.Dropped, tools ...registry.NormalizedTool) *registry.Snapshot {
	t.Helper()
	r := registry.New()
	for i := range tools {
		tools[i].Server, tools[i].ID = "s", registry.ID("s", tools[i].Name)
		if tools[i].Definition == nil {
			tools[i].Definition = json.RawMessage(`{}`)
		}
	}
	_, err := r.Replace("s", registry.Offer{Tools: tools, Dropped: dropped})
	expect.OK(t, err)
	return r.Snapshot()
}

func TestNamesOfSkills(t *testing.T) {
	var skills []registry.Skill
	for _, name := range []string{"git", "git-2", "lire-été", strings.Repeat("é", 64), "Git", "a--b", "-a", "a-", "a_b", strings.Repeat("a", 65)} {
		uri := "skill://" + name + urls.SkillFile
		skills = append(skills, registry.Skill{ID: registry.ID("s", uri), Server: "s", URI: uri, Name: name, Definition: json.RawMessage(`{}`)})
	}
	r := registry.New()
	_, err := r.Replace("s", registry.Offer{Skills: skills})
	expect.OK(t, err)
	x := caseOf(config.Config{Servers: []config.Server{stdio("x")}, Router: config.Router{ToolBudget: 10000}}, status.Status{Name: "s", State: status.Ready})
	x.Catalog = r.Snapshot()
	findings := Examine(x).Findings
	expect.Equal(t, len(findings), 1, "findings")
	expect.Equal(t, findings[0].Severity, Note, "the severity")
	expect.Contains(t, findings[0].Problem, "some hosts refuse its skills with these names: Git, a--b, -a, a- and 2 more.")
}

// Findings on servers that run.
func TestOffer(t *testing.T) {
	plain := registry.NormalizedTool{Name: "read_file", Description: "Reads."}
	big := registry.NormalizedTool{Name: "big", Description: "Big.", Definition: json.RawMessage(`"` + strings.Repeat("x", 4*5000) + `"`)}
	filtered := func(f config.ToolFilter) config.Server {
		e := stdio("npx -y pkg")
		e.Tools = f
		return e
	}
	ready := status.Status{State: status.Ready, ProtocolVersion: "2025-11-25"}
	tests := map[string]struct {
		entry    config.Server
		status   status.Status
		router   config.Router
		dropped  []registry.Dropped
		tools    []registry.NormalizedTool
		severity Severity
		says     string // in problem and fix
	}{
		"nothing": {stdio("x"), ready, config.Router{}, nil, nil, Warning, "offers nothing"},
		"not validated": {stdio("x"), ready, config.Router{}, nil, []registry.NormalizedTool{{
			Name: "a", Description: "A.", InputSchema: []byte(`{"type":"object","anyOf":[{"$ref":"#"}]}`),
		}}, Warning, `the arguments of 1 tool are not validated`},
		"left out":       {stdio("x"), ready, config.Router{}, []registry.Dropped{{Kind: "tool", Name: "#2", Reason: "it has no name"}}, []registry.NormalizedTool{plain}, Broken, `1 definition that it lists can't be offered`},
		"all filtered":   {filtered(config.ToolFilter{Allow: []string{"nope"}}), ready, config.Router{}, []registry.Dropped{{Kind: "tool", Name: "a", Filter: "allow"}}, nil, Warning, "removes all of its tools: a"},
		"denies nothing": {filtered(config.ToolFilter{Deny: []string{"raed_file", "s__read_*"}}), ready, config.Router{}, nil, []registry.NormalizedTool{plain}, Warning, `"raed_file" in "tools", "deny" of its entry matches no tool`},
		"allows nothing": {filtered(config.ToolFilter{Allow: []string{"read_*", "zzz*"}}), ready, config.Router{}, nil, []registry.NormalizedTool{plain}, Warning, `"zzz*" in "tools", "allow"`},
		"renames nobody": {filtered(config.ToolFilter{Rename: map[string]string{"nobody": "x"}}), ready, config.Router{}, nil, []registry.NormalizedTool{plain}, Warning, `"nobody" in "tools", "rename"`},
		"undescribed":    {stdio("x"), ready, config.Router{}, nil, []registry.NormalizedTool{{Name: "mystery"}}, Warning, "1 tool has no description"},
		"mended":         {stdio("x"), ready, config.Router{}, nil, []registry.NormalizedTool{{Name: "m", Description: "M.", Repairs: []string{"title: removed"}}}, Note, "title: removed"},
		"costly":         {stdio("x"), ready, config.Router{ToolBudget: 10000}, nil, []registry.NormalizedTool{big, plain}, Warning, `{"deny": ["big"]}`},
		"over, direct":   {stdio("x"), ready, config.Router{Mode: "direct", ToolBudget: 1}, nil, []registry.NormalizedTool{{Name: "a", Description: "A.", Definition: json.RawMessage(`"0123456789"`)}}, Warning, `"mode": "auto"`},
		"questions":      {stdio("x"), status.Status{State: status.Ready, Refused: 312, RefusedBy: "60 a minute"}, config.Router{}, nil, []registry.NormalizedTool{plain}, Warning, `refused or delayed 312 questions`},
		"notes":          {stdio("x"), status.Status{State: status.Ready, Notes: []string{"writes a", "names b"}}, config.Router{}, nil, []registry.NormalizedTool{plain}, Note, "it writes a, and names b."},
		"suspect":        {stdio("x"), ready, config.Router{}, nil, []registry.NormalizedTool{{Name: "m", Description: "M.", Suspect: []string{`description: "<!-- a"`, "title: b"}}}, Warning, "1 tool has a text that tells a model what to do beyond its use, or hid characters from people: m."},
		"repairs":        {stdio("x"), status.Status{State: status.Ready, Repairs: []status.Repair{{Of: "results", What: "content: made an array of text", Times: 12}}}, config.Router{}, nil, []registry.NormalizedTool{plain}, Note, "repairs its results: content: made an array of text (12 times)."},
		"noise":          {stdio("x"), status.Status{State: status.Ready, StrayLines: 3, StrayLine: "Hello!"}, config.Router{}, nil, []registry.NormalizedTool{plain}, Warning, `3 lines so far ("Hello!")`},
		"not UTF-8":      {stdio("x"), status.Status{State: status.Ready, Unusable: status.Unusable{Count: 1, Last: "with bytes that are not UTF-8"}}, config.Router{}, nil, []registry.NormalizedTool{plain}, Warning, "fail, and notifications are left out. The last came with bytes that are not UTF-8."},
		"flood":          {stdio("x"), status.Status{State: status.Ready, Flood: status.Flood{PerSecond: 20000, Method: "notifications/\x1bprogress", Dropped: 7}}, config.Router{}, nil, []registry.NormalizedTool{plain}, Warning, `too many messages that were not asked for, such as "notifications/`},
		"flood of lines": {stdio("x"), status.Status{State: status.Ready, Flood: status.Flood{PerSecond: 20000}}, config.Router{}, nil, []registry.NormalizedTool{plain}, Warning, `(20000 in a second)`},
		"outdated":       {stdio("x"), status.Status{State: status.Ready, Outdated: "list its changed tools: no answer within 30s"}, config.Router{}, nil, []registry.NormalizedTool{plain}, Warning, "the old ones stay: no answer within 30s."},
		"no prompts":     {stdio("x"), ready, config.Router{}, []registry.Dropped{{Kind: "prompt", Reason: "more than 100000 prompts"}}, []registry.NormalizedTool{plain}, Warning, "its list of prompts can't be read, so it is used without: more than 100000 prompts."},
		"slow": {stdio("npx -y @o/pkg@latest x"), status.Status{State: status.Ready, Took: 12 * time.Second, Fetching: 9 * time.Second, Package: "@o/pkg@1.2.3"}, config.Router{}, nil, []registry.NormalizedTool{plain}, Note,
			`it took 12 s to start, 9.0 s of them to fetch its package; the next start is faster.`},
		"slow with data": {stdio("npx -y @modelcontextprotocol/server-memory"), status.Status{State: status.Ready, Took: 12 * time.Second, Fetching: 9 * time.Second, Cached: true, Package: "@modelcontextprotocol/server-memory@1.2.3"}, config.Router{}, nil, []registry.NormalizedTool{plain}, Warning,
			`its data is in its package's folder; set MEMORY_FILE_PATH first`},
		"slow to ask": {stdio("npx -y @o/pkg x"), status.Status{State: status.Ready, Took: 12 * time.Second, Fetching: 9 * time.Second, Cached: true, Package: "@o/pkg@1.2.3"}, config.Router{}, nil, []registry.NormalizedTool{plain}, Warning,
			`it took 12 s to start, 9.0 s of them to look up its package. pin the version, so the newest one is not looked up each time: run metarouter doctor --pin --write`},
		"slow itself":  {stdio("x"), status.Status{State: status.Ready, Took: 12 * time.Second}, config.Router{}, nil, []registry.NormalizedTool{plain}, Note, `it took 12 s to start; clients can use the other servers meanwhile.`},
		"old protocol": {stdio("x"), status.Status{State: status.Ready, ProtocolVersion: "2024-11-05"}, config.Router{}, nil, []registry.NormalizedTool{plain}, Note, "2024-11-05"},
		"shaky":        {stdio("x"), status.Status{State: status.Ready, Restarts: 2, LastError: "exited with status 3", Fault: &status.Fault{Kind: status.Exited}}, config.Router{}, nil, []registry.NormalizedTool{plain}, Warning, "2 times. The last reason: exited with status 3"},
		"reverted":     {stdio("x"), status.Status{State: status.Ready, Reverted: true, LastError: "the edit"}, config.Router{}, nil, []registry.NormalizedTool{plain}, Broken, "its last edit is not in use: the edit"},
		"pinned":       {stdio("x"), ready, config.Router{Pinned: []string{"s:nope"}}, nil, []registry.NormalizedTool{plain}, Warning, `"pinned" has "s:nope"`},
		"disabled":     {stdio("x"), status.Status{State: status.Disabled}, config.Router{}, nil, nil, Note, "metarouter enable s --write"},
		"long call":    {stdio("x"), status.Status{State: status.Ready, Longest: 90 * time.Second}, config.Router{}, nil, []registry.NormalizedTool{plain}, Note, "a call has been under way for 90 s. if it hangs: metarouter restart s"},
		"draining":     {config.Server{Name: "s", Transport: config.Stdio, Command: "x", Disabled: true}, status.Status{State: status.Stopping, LastError: "its calls end"}, config.Router{}, nil, nil, Note, "metarouter enable s --write"},
		"self":         {stdio("x"), status.Status{State: status.Self}, config.Router{}, nil, nil, Warning, "inside the router"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.status.Name = "s"
			if tc.router.ToolBudget == 0 {
				tc.router.ToolBudget = 10000
			}
			x := caseOf(config.Config{Servers: []config.Server{tc.entry}, Router: tc.router}, tc.status)
			x.Catalog = offer(t, tc.dropped, tc.tools...)
			x.Finds = func(name string) bool { return name != "s:nope" }
			r := Examine(x)
			if len(r.Findings) != 1 {
				t.Fatalf("found %+v", r.Findings)
			}
			f := r.Findings[0]
			expect.Equal(t, strings.Contains(f.Problem, "\x1b"), false, "an escape sequence is shown: %q", f.Problem)
			if f.Severity != tc.severity || !strings.Contains(f.Problem+" "+f.Fix, tc.says) {
				t.Errorf("found %s: %q, fix %q", f.Severity, f.Problem, f.Fix)
			}
			expect.Equal(t, r.OK, tc.severity != Broken, "its verdict is wrong")
		})
	}
}

func TestWhole(t *testing.T) {
	misconfigured := stdio("x")
	misconfigured.Misconfigured = "m"
	twin := stdio("x")
	twin.Name = "twin"
	c := config.Config{
		Servers: []config.Server{misconfigured, func() config.Server { e := stdio("x"); e.Name = "one"; return e }(), twin},
		Problems: []config.Problem{
			{File: "f", Line: 1, Column: 2, Message: `the key "moood" is not known; did you mean "mode"?`, Severity: "warning", Fix: `write "mode" instead`},
			{File: "f", Line: 3, Column: 4, Server: "s", Message: "the variable TOKEN is not set; set it", Severity: "error", Fix: "set it"},
		},
		Router: config.Router{ToolBudget: 10},
	}
	x := caseOf(c, status.Status{Name: "s", State: status.Misconfigured}, status.Status{Name: "one", State: status.Idle}, status.Status{Name: "twin", State: status.Idle})
	x.World = World{DataFolder: errors.New("read-only")}
	r := Examine(x)
	var got []string
	for _, f := range r.Findings {
		got = append(got, fmt.Sprintf("%s/%s: %s", f.Server, f.Severity, f.Problem))
	}
	want := `s/broken: the variable TOKEN is not set (f:3:4).
twin/warning: it is the same server as "one", so all its tools exist twice.
/warning: the key "moood" is not known (f:1:2).
/warning: nothing can be written to the data folder (read-only), so each start is as slow as the first.`
	expect.Equal(t, strings.Join(got, "\n"), want, "found")
	expect.Equal(t, r.Verdict, "servers that work: 2 of 3; 1 problem: see above; 3 warnings", "verdict")
	if v := Unusable(config.Problem{File: "f", Line: 1, Column: 1, Message: "it is empty; write {}", Fix: "write {}"}); v.OK || v.Findings[0].Fix != "write {}" {
		t.Errorf("unusable: %+v", v)
	}
}

// A server may repeat its arguments, and its command line may hold secrets.
func TestConceals(t *testing.T) {
	entry := stdio("x --token=abcdefgh positional")
	entry.Env = map[string]string{"KEY": "s3cr3t-value", "WORD": "server"}
	fault := &status.Fault{Kind: status.Refused, Message: "KEY s3cr3t-value \x1b[31mand abcdefgh\x1b[0m refused"}
	r := Examine(caseOf(config.Config{Servers: []config.Server{entry}}, status.Status{Name: "s", State: status.Failed, Fault: fault}))
	f := r.Findings[0]
	expect.Contains(t, f.Problem, "KEY ${KEY} and … refused", "problem")
	expect.Contains(t, f.Fix, "the server, or report this", "fix")
	fault = &status.Fault{Kind: status.Exited, Code: 1}
	r = Examine(caseOf(config.Config{Servers: []config.Server{entry}}, status.Status{Name: "s", State: status.Failed, Fault: fault}))
	if f := r.Findings[0]; !strings.HasSuffix(f.Fix, "x --token=… positional") {
		t.Errorf("fix %q", f.Fix)
	}
}

// A name in a command to copy is one word of it, whatever it has.
func TestNameInCommand(t *testing.T) {
	entry := stdio("x")
	entry.Name = "a; reboot"
	r := Examine(caseOf(config.Config{Servers: []config.Server{entry}}, status.Status{Name: entry.Name, State: status.Disabled}))
	expect.Contains(t, r.Findings[0].Fix, "metarouter enable "+commandline.Quote(entry.Name)+" --write", "fix")
}

// Each cause has a valid probe, and no name in braces is left.
func TestCauses(t *testing.T) {
	for _, c := range causes {
		if c.printed != nil {
			c.printed()
		}
		if problem, fix, _ := (output{fault: new(status.Fault)}).sentences(c, []string{"", "x"}); leftBrace.MatchString(problem + fix) {
			t.Errorf("%s: %s", c.kind, problem+fix)
		}
	}
}

var leftBrace = regexp.MustCompile(`\{[a-zA-Z0-9]+\}`)

func FuzzExplainPrinted(f *testing.F) {
	f.Add("npm error code E404")
	f.Add("Usage: x")
	f.Fuzz(func(t *testing.T, line string) {
		w := output{entry: stdio("npx -y pkg"), fault: &status.Fault{Kind: status.Exited}, lines: []string{line}}
		if problem, _, _ := w.explain(); problem == "" {
			t.Error("an empty problem")
		}
		tail([]string{line})
	})
}

// A data folder that others can write to is named, with the command.
func TestExposedDataFolder(t *testing.T) {
	c := caseOf(config.Config{Servers: []config.Server{stdio("npx a")}}, status.Status{Name: "s", State: status.Ready})
	c.World = World{DataFolder: &safefile.Exposed{Problem: "other users can write to /d (mode 0777)", Fix: "run 'chmod go-w /d'"}}
	for _, f := range Examine(c).Findings {
		if strings.HasPrefix(f.Problem, "other users can write to /d (mode 0777), so no approval") && strings.HasPrefix(f.Fix, "run 'chmod go-w /d', or") {
			return
		}
	}
	t.Errorf("not found: %+v", Examine(c))
}

// An edit that waits for approval is named with the command; a wrong one with its mistake.
func TestEditNotInUse(t *testing.T) {
	for _, tc := range []struct {
		edit         error
		approve      string
		problem, fix string
	}{
		{&trustfile.Untrusted{Text: trustfile.Text{Files: []string{"/p/.mcp.json"}}, Before: true, Added: []string{"a"}}, "metarouter trust /p/.mcp.json",
			"the last edit of the configuration waits for your approval: /p/.mcp.json is not trusted: it was edited since you approved it (added: a).", "read the file, then run: metarouter trust /p/.mcp.json"},
		{config.Problem{File: "/f", Line: 1, Column: 2, Message: "a comma is missing"}, "",
			"the last edit of the configuration is not in use: /f:1:2: a comma is missing.", "correct the file; 'metarouter check' says whether it is correct"},
	} {
		x := caseOf(config.Config{Servers: []config.Server{stdio("x")}}, status.Status{Name: "s", State: status.Ready})
		x.Edit, x.Approve = tc.edit, tc.approve
		r := Examine(x)
		want := Finding{Severity: Warning, Problem: tc.problem, Fix: tc.fix}
		if i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Server == "" }); i < 0 || !reflect.DeepEqual(r.Findings[i], want) {
			t.Errorf("got %+v, want %+v", r.Findings, want)
		}
	}
}
