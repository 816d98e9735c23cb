package config

import (
	"cmp"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// An entry is the text of one server, not decoded yet.
type entry struct {
	source source
	name   string
	member hujson.ObjectMember
	twice  bool // another entry of the file has the name
}

// roots are the keys under which the dialects keep their servers: Claude's and
// most others', VS Code's, Zed's.
var roots = []string{"mcpServers", "servers", "context_servers"}

// maxName is the most bytes that a server's name may have.
const maxName = 256

// entriesOf decodes "metarouter" into r and returns the servers' entries, which are under
// one of the roots, or in the file's object itself.
func entriesOf(d *decoder, r *Router) []entry {
	var entries []entry
	places := make(map[string]int) // in entries, by the name
	collect := func(o *hujson.Object) {
		for _, m := range o.Members {
			e := entry{source: d.source, name: keyOf(m), member: m}
			if d.notAServer(m) {
				continue
			}
			if len(e.name) > maxName {
				d.mistake(m.Name.StartOffset, "%q is left out: a server's name has at most %d bytes; write a shorter one", e.name, maxName)
				continue
			}
			if i, again := places[e.name]; again {
				entries[i], entries[i].twice = e, true
				continue
			}
			places[e.name] = len(entries)
			entries = append(entries, e)
		}
	}
	known := fields{"metarouter": objectField(d, routerFields(d, r))}
	if d.source.bare {
		servers, others := new(hujson.Object), new(hujson.Object)
		for _, m := range d.source.root.Members {
			of := others
			if m.Value.Value.Kind() == '{' && keyOf(m) != atRouter {
				of = servers
			}
			of.Members = append(of.Members, m)
		}
		d.object(others, known)
		collect(servers)
		return entries
	}
	for _, key := range roots {
		known[key] = func(m hujson.ObjectMember) {
			if o, ok := m.Value.Value.(*hujson.Object); ok {
				collect(o)
				return
			}
			d.refuse(m.Name.StartOffset, `%q must be an object; write {"a name": {"command": "…"}}`, key)
		}
	}
	d.object(d.source.root, known)
	return entries
}

// isBare reports whether the file is a map of servers without a root key.
func isBare(root *hujson.Object) bool {
	found := false
	for _, m := range root.Members {
		if slices.Contains(roots, keyOf(m)) {
			return false
		}
		o, ok := m.Value.Value.(*hujson.Object)
		found = found || ok && slices.ContainsFunc(o.Members, func(m hujson.ObjectMember) bool {
			return slices.Contains([]string{"command", "url", "httpUrl", "serverUrl"}, keyOf(m))
		})
	}
	return found
}

// server decodes one entry of any dialect.
func (d *decoder) server(e entry, r Router) Server {
	d.source, d.name, d.level, d.fatal, d.missing, d.references = e.source, e.name, atEntry, nil, variables{}, nil
	at := e.member.Name.StartOffset
	s := Server{
		Name:               e.name,
		Lazy:               r.Lazy,
		Timeout:            r.Timeout,
		StartTimeout:       90 * time.Second,
		IdleTimeout:        r.IdleTimeout,
		MaxConcurrent:      8,
		QuestionsPerMinute: 60,
		Validate:           r.Validate,
		Retry:              "hints",
		MaxResultTokens:    r.MaxResultTokens,
	}
	if e.twice {
		d.reject(at, "the server is here twice; rename or remove one")
	}
	if e.name == "" {
		d.reject(at, `a server needs a name; write "a name": {"command": "…"}`)
	}
	if strings.Contains(e.name, ":") {
		d.reject(at, "a server's name can't have a colon, since tools are called server:tool; write %q", strings.ReplaceAll(e.name, ":", "-"))
	}
	if o, ok := e.member.Value.Value.(*hujson.Object); ok {
		d.entry(o, &s, at)
	} else {
		d.reject(at, `the server must be an object; write {"command": "…", "args": ["…"]} or {"url": "…"}`)
	}
	s.Misconfigured = strings.Join(d.fatal, "; ")
	return s
}

func (d *decoder) entry(o *hujson.Object, s *Server, at int) {
	var (
		enabled, killStrays      = true, true
		urlKey, httpURL, windURL string
		include, exclude, off    []string
		env                      map[string]string
		helper                   string
	)
	claims := len(d.claims)
	d.envFile = d.pathOf(o, "envFile")
	defer func() { d.envFile = "" }()
	arguments := d.texts(argumentsField(d, s))
	environment := d.texts(set(d, &env, dict(d.referring)))
	kind := set(d, &s.Transport, transport)
	d.object(o, fields{
		"command": orObject(d, commandField(d, s, o), fields{ // in Zed's dialect
			"path": set(d, &s.Command, d.program), "args": arguments, "env": environment,
		}),
		"args":       arguments,
		"env":        environment,
		"envFile":    set(d, &s.EnvFile, d.path),
		"cwd":        set(d, &s.Cwd, d.path),
		"inheritEnv": set(d, &s.InheritEnv, list(text)),
		"killStrays": set(d, &killStrays, boolean),
		"roots":      set(d, &s.Roots, d.roots),

		"type": kind, "transport": kind, "transportType": kind,
		"url": set(d, &urlKey, d.referring), "httpUrl": set(d, &httpURL, d.referring), "serverUrl": set(d, &windURL, d.referring),
		"headers": d.texts(set(d, &s.Headers, dict(d.referring))), "headersHelper": set(d, &helper, d.expanded), "oauth": oauthField(d, &s.OAuth),
		"credentials": set(d, new(string), credentials),

		"disabled": set(d, &s.Disabled, boolean), "enabled": set(d, &enabled, boolean),
		"lazy":               set(d, &s.Lazy, boolean),
		"timeout":            set(d, &s.Timeout, duration(positive)),
		"startTimeout":       set(d, &s.StartTimeout, duration(positive)),
		"idleTimeout":        set(d, &s.IdleTimeout, duration(orZero)),
		"maxConcurrent":      set(d, &s.MaxConcurrent, atLeast(1)),
		"questionsPerMinute": set(d, &s.QuestionsPerMinute, atLeast(1)),
		"trustHints":         set(d, &s.TrustHints, boolean),

		"capabilities":    set(d, &s.Capabilities, list(text)),
		"group":           set(d, &s.Group, text),
		"service":         serviceField(d, &s.Service),
		"priority":        set(d, &s.Priority, atLeast(math.MinInt)),
		"validate":        set(d, &s.Validate, validates),
		"retry":           set(d, &s.Retry, oneOf("hints", "never", "always")),
		"maxResultTokens": set(d, &s.MaxResultTokens, atLeast(0)),
		"cache":           set(d, &s.Cache, duration(orZero)),
		"tools": orObject(d, set(d, &s.Tools.Allow, list(pattern)), fields{ // a plain list in Copilot's dialect
			"allow": set(d, &s.Tools.Allow, list(pattern)), "deny": set(d, &s.Tools.Deny, list(pattern)), "rename": set(d, &s.Tools.Rename, dict(text)),
			"timeout":         set(d, &s.ToolTimeouts, patterned(duration(positive))),
			"maxResultTokens": set(d, &s.ToolResultTokens, patterned(atLeast(0))),
			"rate":            set(d, &s.ToolRates, patterned(rate)),
		}),
		"includeTools": set(d, &include, list(pattern)), "excludeTools": set(d, &exclude, list(pattern)), "disabledTools": set(d, &off, list(pattern)),
	})
	s.Disabled, s.KeepStrays = s.Disabled || !enabled, !killStrays
	s.Tools.Allow = append(s.Tools.Allow, include...)
	s.Tools.Deny = append(s.Tools.Deny, append(exclude, off...)...)
	s.URL = cmp.Or(httpURL, windURL, urlKey)
	if httpURL != "" && s.Transport == "" && s.Command == "" {
		s.Transport = StreamableHTTP // the meaning of Gemini's key
	}
	d.connect(s, at)
	d.leaveWindows(s, o)
	d.help(s, helper, at)
	d.checkLogin(s, o)
	d.warnOfSecrets(o)
	d.reportMissing(s)
	if m, ok := member(o, "args"); ok {
		if a, ok := textsOf(m.Value, nil).Value.(*hujson.Array); ok {
			d.claimFolders(s, a.Elements)
		}
	}
	s.Env = d.environ(s, env, o)
	if s.References = d.references; s.Disabled {
		d.claims = d.claims[:claims] // it needs no secrets
	}
	s.Self = s.Transport == Stdio && d.env.startsRouter(s.Command, s.Args, s.Cwd)
	if !s.Self && d.env.executable != "" && s.Command == "metarouter" {
		s.Command = d.env.executable
	}
}

// connect decides how the server is reached, and drops the keys of other transports.
func (d *decoder) connect(s *Server, at int) {
	broken := len(d.fatal) > 0 // a wrong key is reported already; don't report it as missing
	switch {
	case s.Transport == "" && s.Command != "" && s.URL != "":
		d.reject(at, `the server has both "command" and a url; remove one, or add "type": "stdio" or "type": "http"`)
	case s.Transport == "" && s.URL != "":
		s.Transport = AutoHTTP
	case s.Transport == "" && s.Command != "":
		s.Transport = Stdio
	case s.Transport == "" && !broken:
		d.reject(at, `the server has nothing to start or reach; write "command" and "args", or "url"`)
	}
	if s.Transport == Stdio {
		s.URL, s.Headers, s.OAuth = "", nil, nil
		if s.Command == "" && !broken {
			d.reject(at, `a stdio server needs a program; write "command"`)
		}
		return
	}
	if s.Transport == "" {
		return
	}
	s.Command, s.Args = "", nil
	if s.URL == "" && !broken {
		d.reject(at, `an http server needs an address; write "url": "https://…"`)
	}
	if s.URL != "" && !broken && !d.missing.any() && !d.isWebURL(s.URL) {
		d.reject(at, `the url must be a whole URL; write "https://host/path"`)
	}
}

// isWebURL reports whether s is a whole URL, as far as that is known before variables are
// expanded.
func (d *decoder) isWebURL(s string) bool {
	if (d.env.asWritten || len(d.references) > 0) && strings.Contains(s, "${") {
		return true
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// reportMissing reports all variables that the entry needs and that are not set, in one
// problem. A disabled server needs none.
func (d *decoder) reportMissing(s *Server) {
	if !s.Disabled && d.missing.any() {
		d.reject(d.missingAt, "%s", d.missing)
		if d.mistakes <= maxProblems {
			last := &d.problems[len(d.problems)-1]
			last.Fix, last.Unset = d.missing.fix(), strings.Join(d.missing.unset, ",")
		}
	}
}

// environ returns the variables of envFile, overridden by those of env.
func (d *decoder) environ(s *Server, env map[string]string, o *hujson.Object) map[string]string {
	if s.EnvFile == "" || s.Disabled || d.missing.any() || d.env.asWritten {
		return env
	}
	vars, err := d.readEnvFile(s.EnvFile)
	if err != nil {
		m, _ := member(o, "envFile")
		d.reject(m.Name.StartOffset, `"envFile" can't be read: %v; correct the path or the file`, withoutPath(err))
		return env
	}
	vars = maps.Clone(vars)
	maps.Copy(vars, env)
	return vars
}

// An envFile is the content of an envFile, or the reason why it can't be read.
type envFile struct {
	vars map[string]string
	err  error
}

// readEnvFile reads each envFile once, since many entries may name the same one.
func (d *decoder) readEnvFile(path string) (map[string]string, error) {
	f, known := d.envFiles[path]
	if !known {
		var data []byte
		if data, f.err = d.env.readFile(path); f.err == nil {
			f.vars, f.err = parseDotenv(string(data))
		}
		if d.envFiles == nil {
			d.envFiles = make(map[string]envFile)
		}
		d.envFiles[path] = f
	}
	return f.vars, f.err
}
