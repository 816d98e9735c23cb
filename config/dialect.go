package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/urls"
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
// one of the roots, or in the file's object itself. Some may have one name.
func entriesOf(d *decoder, r *Router) []entry {
	var entries []entry
	collect := func(o *hujson.Object) {
		for _, m := range o.Members {
			e := entry{source: d.source, name: jsonc.Key(m), member: m}
			if d.notAServer(m) {
				continue
			}
			if len(e.name) > maxName {
				d.within("the server is left out", func() {
					d.mistake(m.Name.StartOffset, "the name %q has more than %d bytes; write a shorter one", e.name, maxName)
				})
				continue
			}
			entries = append(entries, e)
		}
	}
	known := fields{"metarouter": objectField(d, routerFields(d, r))}
	if d.source.bare {
		servers, others := new(hujson.Object), new(hujson.Object)
		for _, m := range d.source.root.Members {
			of := others
			if m.Value.Value.Kind() == '{' && jsonc.Key(m) != atRouter {
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

// isBare reports whether a file without a root key is a map of servers.
func isBare(root *hujson.Object) bool {
	return slices.ContainsFunc(root.Members, func(m hujson.ObjectMember) bool {
		o, ok := m.Value.Value.(*hujson.Object)
		return ok && slices.ContainsFunc(o.Members, func(m hujson.ObjectMember) bool {
			return slices.Contains([]string{"command", "url", "httpUrl", "serverUrl"}, jsonc.Key(m))
		})
	})
}

// server decodes one entry of any dialect.
func (d *decoder) server(e entry, r Router) Server {
	d.source, d.name, d.level, d.fatal, d.missing, d.references = e.source, e.name, atEntry, nil, variables{}, nil
	d.variables, d.secrets = nil, nil
	at := e.member.Name.StartOffset
	s := defaultServer()
	s.Name, s.Lazy, s.Timeout, s.IdleTimeout, s.Validate, s.NewTools, s.MaxResultTokens = e.name, r.Lazy, r.Timeout, r.IdleTimeout, r.Validate, r.NewTools, r.MaxResultTokens
	if e.twice {
		d.mistake(at, "the server is here twice; rename or remove one")
	}
	if e.name == "" {
		d.mistake(at, `a server needs a name; write "a name": {"command": "…"}`)
	}
	if strings.Contains(e.name, ":") {
		d.mistake(at, "a server's name can't have a colon, since tools are called server:tool; write %q", strings.ReplaceAll(e.name, ":", "-"))
	}
	if o, ok := e.member.Value.Value.(*hujson.Object); ok {
		entryDecoder{d}.entry(o, &s, at)
	} else {
		d.mistake(at, `the server must be an object; write {"command": "…", "args": ["…"]} or {"url": "…"}`)
	}
	s.Misconfigured, s.Variables = strings.Join(d.fatal, "; "), slices.Sorted(slices.Values(d.variables))
	return s
}

// entryKeys are the keys of an entry that are not fields of a Server.
type entryKeys struct {
	Enabled     bool     `key:"enabled"`
	KillStrays  bool     `key:"killStrays"`
	URL         string   `key:"url"`
	HTTPURL     string   `key:"httpUrl"`
	ServerURL   string   `key:"serverUrl"`
	Helper      string   `key:"headersHelper"`
	Credentials string   `key:"credentials"`
	Include     []string `key:"includeTools"`
	Exclude     []string `key:"excludeTools"`
	Off         []string `key:"disabledTools"`
}

// An entryDecoder decodes an entry.
type entryDecoder struct{ *decoder }

func (d entryDecoder) entry(o *hujson.Object, s *Server, at int) {
	var (
		env  map[string]string
		keys = entryKeys{Enabled: true, KillStrays: true}
	)
	d.envFile = d.pathOf(o, "envFile")
	defer func() { d.envFile = "" }()
	arguments, environment, login := argumentsField(d.decoder, s), d.to(&env), d.to(&s.OAuth)
	d.object(o, d.keys(s, d.keys(&keys, fields{
		"command": orObject(d.decoder, commandField(d, s, o), fields{ // in Zed's dialect
			"path": d.to(&s.Command), "args": arguments, "env": environment,
		}),
		"args": arguments,
		"env":  environment,
		"oauth": func(m hujson.ObjectMember) {
			if m.Value.Value.Kind() == '{' { // other clients have a switch of that name
				login(m)
			}
		},
		"tools": orObject(d.decoder, d.to(&s.Tools.Allow), d.keys(&s.Tools, fields{ // a plain list in Copilot's dialect
			"timeout":         d.to(&s.ToolTimeouts),
			"maxResultTokens": d.to(&s.ToolResultTokens),
			"rate":            d.to(&s.ToolRates),
		})),
	})))
	s.Disabled, s.KeepStrays = s.Disabled || !keys.Enabled, !keys.KillStrays
	s.Tools.Allow = append(s.Tools.Allow, keys.Include...)
	s.Tools.Deny = append(s.Tools.Deny, append(keys.Exclude, keys.Off...)...)
	for _, text := range s.Tools.Deny { // it may be as clients list the tools
		for _, separator := range []string{"__", ":"} {
			if own, ok := strings.CutPrefix(text, s.Name+separator); ok {
				s.Tools.Deny = append(s.Tools.Deny, own)
			}
		}
	}
	s.URL = cmp.Or(keys.HTTPURL, keys.ServerURL, keys.URL)
	if keys.HTTPURL != "" && s.Transport == "" && s.Command == "" {
		s.Transport = StreamableHTTP // the meaning of Gemini's key
	}
	d.connect(s, at)
	d.leaveWindows(s, o)
	d.help(s, keys.Helper, at)
	d.checkLogin(s, o)
	d.checkCredentials(s, keys, o)
	d.checkUserValues(s, at)
	d.warnOfTexts(s, o)
	d.reportMissing(s)
	s.Env = d.environ(s, env, o)
	s.References = d.references
	for _, said := range d.secrets {
		if !s.Disabled { // else it needs no secrets
			d.examineSecret(said.offset, said.name)
		}
	}
	s.Self = s.Transport == Stdio && d.env.startsRouter(s.Command, s.Args, s.Cwd)
	if !s.Self && d.env.executable != "" && s.Command == "metarouter" {
		s.Command = d.env.executable
	}
}

// connect decides how the server is reached, and drops the keys of other transports.
func (d entryDecoder) connect(s *Server, at int) {
	broken := len(d.fatal) > 0 // a wrong key is reported already; don't report it as missing
	switch {
	case s.Transport == "" && s.Command != "" && s.URL != "":
		d.mistake(at, `the server has both "command" and a url; remove one, or add "type": "stdio" or "type": "http"`)
	case s.Transport == "" && s.URL != "":
		s.Transport = AutoHTTP
	case s.Transport == "" && s.Command != "":
		s.Transport = Stdio
	case s.Transport == "" && !broken:
		d.mistake(at, `the server has nothing to start or reach; write "command" and "args", or "url"`)
	}
	if s.Transport == Stdio {
		s.URL, s.Headers, s.OAuth = "", nil, nil
		if s.PerFolder = s.Cwd == perClient; s.PerFolder {
			s.Cwd = d.env.home
		} else if s.Cwd == "" && !d.env.asWritten {
			if s.Cwd = d.source.project(); d.source.path == d.env.own && d.env.home != "" {
				s.Cwd = d.env.home
			}
		}
		if s.Command == "" && !broken {
			d.mistake(at, `a stdio server needs a program; write "command"`)
		}
		return
	}
	if s.Transport == "" {
		return
	}
	s.Command, s.Args = "", nil
	if s.URL == "" && !broken {
		d.mistake(at, `an http server needs an address; write "url": "https://…"`)
	}
	if s.URL != "" && !broken && d.isKnown(s.URL) && urls.Web(s.URL) != nil {
		d.mistake(at, `the url must be a whole URL; write "https://host/path"`)
	}
}

// reportMissing reports all variables that the entry needs and that are not set, in one
// problem. A disabled server needs no variables.
func (d entryDecoder) reportMissing(s *Server) {
	if !s.Disabled && d.missing.any() {
		d.mistake(d.missingAt, "%s", d.missing)
		if d.mistakes <= maxProblems {
			last := &d.problems[len(d.problems)-1]
			last.Fix, last.Unset = d.missing.fix(), strings.Join(d.missing.unset, ",")
		}
	}
}

// environ returns the variables of envFile and of env; env overrides envFile.
func (d entryDecoder) environ(s *Server, env map[string]string, o *hujson.Object) map[string]string {
	if s.EnvFile == "" || s.Disabled || d.missing.any() || d.env.asWritten {
		return env
	}
	vars, err := d.readEnvFile(s.EnvFile)
	if err != nil {
		m, _ := jsonc.Member(o, "envFile")
		d.mistake(m.Name.StartOffset, `"envFile" can't be read: %v; correct the path or the file`, withoutPath(err))
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
func (d *expander) readEnvFile(path string) (map[string]string, error) {
	f, known := d.envFiles[path]
	if !known {
		var data []byte
		if data, f.err = d.env.readFile(path); f.err == nil {
			f.vars, f.err = parseEnvFile(string(data))
		}
		if d.envFiles == nil {
			d.envFiles = make(map[string]envFile)
		}
		d.envFiles[path] = f
	}
	return f.vars, f.err
}
