package config

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// An entry is one server's, not yet read.
type entry struct {
	source source
	name   string
	member hujson.ObjectMember
}

// roots are the keys under which the dialects keep their servers: Claude's and
// most others', VS Code's, Zed's.
var roots = []string{"mcpServers", "servers", "context_servers"}

// root reads "metarouter" into r and finds the servers' entries: under one of
// the roots, or in the file's object itself.
func (d *decoder) root(r *Router) []entry {
	var entries []entry
	collect := func(o *hujson.Object) {
		for _, m := range o.Members {
			e := entry{d.source, keyOf(m), m}
			same := func(other entry) bool { return other.name == e.name }
			if i := slices.IndexFunc(entries, same); i >= 0 {
				d.name = e.name
				d.warn(m.Name.StartOffset, "the server is here twice and the last one counts; rename or remove one")
				d.name = ""
				entries[i] = e
				continue
			}
			entries = append(entries, e)
		}
	}
	known := fields{"metarouter": d.in(d.router(r))}
	if d.bare() {
		servers := new(hujson.Object)
		for _, m := range d.source.root.Members {
			if set, ok := known[keyOf(m)]; ok {
				set(m)
			} else if m.Value.Value.Kind() == '{' {
				servers.Members = append(servers.Members, m)
			}
		}
		collect(servers)
		return entries
	}
	for _, key := range roots {
		known[key] = func(m hujson.ObjectMember) {
			if o, ok := m.Value.Value.(*hujson.Object); ok {
				collect(o)
				return
			}
			d.warn(m.Name.StartOffset, `%q must be an object; write {"a name": {"command": "…"}}`, key)
		}
	}
	d.object(d.source.root, known)
	return entries
}

// bare reports whether the file is a map of servers without a root key.
func (d *decoder) bare() bool {
	found := false
	for _, m := range d.source.root.Members {
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

func defaultRouter() Router {
	return Router{
		Mode:           "auto",
		Names:          "prefixed",
		Separator:      "__",
		ToolBudget:     10000,
		ListWait:       10 * time.Second,
		Timeout:        5 * time.Minute,
		Validate:       ValidateOn,
		RouteThreshold: 0.5,
		Learning:       true,
		AccessLog:      AccessLog{MaxSize: 100 << 20, MaxFiles: 5},
		HTTP: HTTP{
			Addr: "127.0.0.1:8787", MaxBody: 16 << 20, MaxHeader: 64 << 10, MaxBatch: 100,
			ReadTimeout: time.Minute, MaxSessions: 1000, SessionTimeout: 30 * time.Minute,
		},
	}
}

var validates = oneOf(ValidateOn, ValidateWarn, ValidateOff)

func (d *decoder) router(r *Router) fields {
	return fields{
		"mode":            set(d, &r.Mode, oneOf("auto", "search", "direct")),
		"names":           set(d, &r.Names, oneOf("prefixed", "bare")),
		"separator":       set(d, &r.Separator, oneOf("__", ".", "-", "/")),
		"toolBudget":      set(d, &r.ToolBudget, atLeast(0)),
		"listWait":        set(d, &r.ListWait, duration(orZero)),
		"pinned":          set(d, &r.Pinned, list(text)),
		"lazy":            set(d, &r.Lazy, boolean),
		"idleTimeout":     set(d, &r.IdleTimeout, duration(orZero)),
		"timeout":         set(d, &r.Timeout, duration(positive)),
		"validate":        set(d, &r.Validate, validates),
		"maxResultTokens": set(d, &r.MaxResultTokens, atLeast(0)),
		"routeThreshold":  set(d, &r.RouteThreshold, fraction),
		"learning":        set(d, &r.Learning, boolean),
		"fillArguments":   set(d, &r.FillArguments, boolean),
		"accessLog":       d.accessLog(&r.AccessLog),
		"capabilities":    set(d, &r.Capabilities, dict(list(text))),
		"classification":  d.classification(&r.Classification),
		"http": d.in(fields{
			"addr":           set(d, &r.HTTP.Addr, text),
			"allowedHosts":   set(d, &r.HTTP.AllowedHosts, list(text)),
			"allowedOrigins": set(d, &r.HTTP.AllowedOrigins, list(text)),
			"tokens":         d.tokens(&r.HTTP.Tokens),
			"tlsCert":        d.tlsFile(&r.HTTP.TLSCert),
			"tlsKey":         d.tlsFile(&r.HTTP.TLSKey),
			"maxBody":        set(d, &r.HTTP.MaxBody, size),
			"maxHeader":      set(d, &r.HTTP.MaxHeader, size),
			"maxBatch":       set(d, &r.HTTP.MaxBatch, atLeast(1)),
			"readTimeout":    set(d, &r.HTTP.ReadTimeout, duration(positive)),
			"maxSessions":    set(d, &r.HTTP.MaxSessions, atLeast(1)),
			"sessionTimeout": set(d, &r.HTTP.SessionTimeout, duration(positive)),
			"rate":           set(d, &r.HTTP.Rate, rate),
		}),
	}
}

// noToken stands for a token that can't be had. No request can bear it, so a
// mistake among the tokens closes the door instead of opening it.
const noToken = "\x00"

func (d *decoder) tokens(to *[]string) func(hujson.ObjectMember) {
	token := func(v hujson.Value) (string, error) {
		s, err := text(v)
		if err != nil {
			return "", err
		}
		var missing variables
		if s = expand(s, d.lookup, &missing); missing.any() {
			d.warn(v.StartOffset, "this token lets nobody in: %s", missing)
			return noToken, nil
		}
		if s == "" {
			d.warn(v.StartOffset, "an empty token lets nobody in; write ${TOKEN} and set TOKEN in the environment")
			return noToken, nil
		}
		return s, nil
	}
	return func(m hujson.ObjectMember) {
		*to = []string{noToken}
		set(d, to, list(token))(m)
	}
}

// noFile stands for a file that can't be had. A mistake here must not have us serve
// without TLS.
const noFile = "\x00"

func (d *decoder) tlsFile(to *string) func(hujson.ObjectMember) {
	path := func(v hujson.Value) (string, error) {
		s, err := text(v)
		if err != nil {
			return "", err
		}
		var missing variables
		if s = expand(s, d.lookup, &missing); missing.any() {
			d.warn(v.StartOffset, "nothing is served over HTTP without this file: %s", missing)
			return noFile, nil
		}
		return d.absolute(s), nil
	}
	return func(m hujson.ObjectMember) {
		*to, d.tls = noFile, place{d.source, m.Name.StartOffset}
		set(d, to, path)(m)
	}
}

// server reads one entry of any dialect.
func (d *decoder) server(e entry, r Router) Server {
	d.source, d.name, d.fatal, d.missing = e.source, e.name, nil, variables{}
	at := e.member.Name.StartOffset
	s := Server{
		Name:            e.name,
		Lazy:            r.Lazy,
		Timeout:         r.Timeout,
		StartTimeout:    90 * time.Second,
		IdleTimeout:     r.IdleTimeout,
		MaxConcurrent:   8,
		Validate:        r.Validate,
		Retry:           "hints",
		MaxResultTokens: r.MaxResultTokens,
	}
	if e.name == "" {
		d.reject(at, "a server needs a name")
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
		enabled                  = true
		urlKey, httpURL, windURL string
		include, exclude, off    []string
		env                      map[string]string
	)
	arguments := set(d, &s.Args, list(d.expanded))
	environment := set(d, &env, dict(d.expanded))
	kind := set(d, &s.Transport, transport)
	d.object(o, fields{
		"command": d.orInside(set(d, &s.Command, d.program), fields{ // Zed's
			"path": set(d, &s.Command, d.program), "args": arguments, "env": environment,
		}),
		"args":       arguments,
		"env":        environment,
		"envFile":    set(d, &s.EnvFile, d.path),
		"cwd":        set(d, &s.Cwd, d.path),
		"inheritEnv": set(d, &s.InheritEnv, list(text)),

		"type": kind, "transport": kind, "transportType": kind,
		"url": set(d, &urlKey, d.expanded), "httpUrl": set(d, &httpURL, d.expanded), "serverUrl": set(d, &windURL, d.expanded),
		"headers": set(d, &s.Headers, dict(d.expanded)),

		"disabled": set(d, &s.Disabled, boolean), "enabled": set(d, &enabled, boolean),
		"lazy":          set(d, &s.Lazy, boolean),
		"timeout":       set(d, &s.Timeout, duration(positive)),
		"startTimeout":  set(d, &s.StartTimeout, duration(positive)),
		"idleTimeout":   set(d, &s.IdleTimeout, duration(orZero)),
		"maxConcurrent": set(d, &s.MaxConcurrent, atLeast(1)),

		"capabilities":    set(d, &s.Capabilities, list(text)),
		"group":           set(d, &s.Group, text),
		"priority":        set(d, &s.Priority, atLeast(math.MinInt)),
		"validate":        set(d, &s.Validate, validates),
		"retry":           set(d, &s.Retry, oneOf("hints", "never", "always")),
		"maxResultTokens": set(d, &s.MaxResultTokens, atLeast(0)),
		"cache":           set(d, &s.Cache, duration(orZero)),
		"tools": d.orInside(set(d, &s.Tools.Allow, list(glob)), fields{ // the plain list is Copilot's
			"allow": set(d, &s.Tools.Allow, list(glob)), "deny": set(d, &s.Tools.Deny, list(glob)), "rename": set(d, &s.Tools.Rename, dict(text)),
			"timeout":         set(d, &s.ToolTimeouts, patterned(duration(positive))),
			"maxResultTokens": set(d, &s.ToolResultTokens, patterned(atLeast(0))),
		}),
		"includeTools": set(d, &include, list(glob)), "excludeTools": set(d, &exclude, list(glob)), "disabledTools": set(d, &off, list(glob)),
	})
	s.Disabled = s.Disabled || !enabled
	s.Tools.Allow = append(s.Tools.Allow, include...)
	s.Tools.Deny = append(s.Tools.Deny, append(exclude, off...)...)
	s.URL = urlKey
	if windURL != "" {
		s.URL = windURL
	}
	if httpURL != "" {
		s.URL = httpURL
		if s.Transport == "" && s.Command == "" {
			s.Transport = StreamableHTTP // Gemini says it by the key
		}
	}
	d.connect(s, at)
	d.reportMissing(s)
	s.Env = d.environ(s, env, o)
	s.Self = s.Transport == Stdio && d.env.startsRouter(s.Command, s.Args, s.Cwd)
	if !s.Self && d.env.executable != "" && s.Command == "metarouter" {
		s.Command = d.env.executable
	}
}

// connect settles how the server is reached, and drops what belongs to another way.
func (d *decoder) connect(s *Server, at int) {
	broken := len(d.fatal) > 0 // a key that is wrong is reason enough; don't miss it too
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
		s.URL, s.Headers = "", nil
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
	if u, err := url.Parse(s.URL); s.URL != "" && !broken && !d.missing.any() && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		d.reject(at, `the url must be a whole one; write "https://host/path"`)
	}
}

// reportMissing names all variables that the entry lacks at once. A disabled
// server lacks nothing.
func (d *decoder) reportMissing(s *Server) {
	if !s.Disabled && d.missing.any() {
		d.reject(d.missingAt, "%s", d.missing)
		d.problems[len(d.problems)-1].Unset = strings.Join(d.missing.unset, ",")
	}
}

// environ is envFile's variables under those of env.
func (d *decoder) environ(s *Server, env map[string]string, o *hujson.Object) map[string]string {
	if s.EnvFile == "" || s.Disabled || d.missing.any() {
		return env
	}
	data, err := d.env.readFile(s.EnvFile)
	vars := map[string]string{}
	if err == nil {
		vars, err = parseDotenv(string(data))
	}
	if err != nil {
		if open, ok := errors.AsType[*fs.PathError](err); ok {
			err = open.Err // without the path, which may hold a variable's value
		}
		i := slices.IndexFunc(o.Members, func(m hujson.ObjectMember) bool { return keyOf(m) == "envFile" })
		d.reject(o.Members[i].Name.StartOffset, `"envFile" can't be read: %v; correct the path or the file`, err)
		return env
	}
	maps.Copy(vars, env)
	return vars
}

// orInside is a field that may also be an object with fields of its own.
func (d *decoder) orInside(field func(hujson.ObjectMember), known fields) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		if m.Value.Value.Kind() == '{' {
			d.in(known)(m)
			return
		}
		field(m)
	}
}

func transport(v hujson.Value) (Transport, error) {
	s, err := text(v)
	switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s)) {
	case "stdio", "local":
		return Stdio, err
	case "http", "streamablehttp":
		return StreamableHTTP, err
	case "sse":
		return SSE, err
	case "ws", "websocket":
		return "", errors.New(`can't be a WebSocket; write "http" and the server's http url`)
	}
	return "", errors.New(`must be "stdio", "http" or "sse"`)
}

func glob(v hujson.Value) (string, error) {
	s, err := text(v)
	if err == nil {
		err = checkGlob(s)
	}
	return s, err
}

func checkGlob(s string) error {
	if _, bad := path.Match(s, ""); bad != nil {
		return errors.New(`must be a name or a pattern such as "read_*"; close every [ and write \\ before one that is meant as such`)
	}
	return nil
}

// patterned reads an object whose keys are patterns.
func patterned[T any](read reader[T]) reader[map[string]T] {
	return func(v hujson.Value) (map[string]T, error) {
		all, err := dict(read)(v)
		if o, ok := v.Value.(*hujson.Object); ok && err == nil {
			for _, m := range o.Members {
				if bad := checkGlob(keyOf(m)); bad != nil {
					return nil, inside(m.Name.StartOffset, "."+keyOf(m), bad)
				}
			}
		}
		return all, err
	}
}

// expanded reads a string and puts in the variables.
func (d *decoder) expanded(v hujson.Value) (string, error) {
	s, err := text(v)
	before := d.missing.any()
	s = expand(s, d.lookup, &d.missing)
	if !before && d.missing.any() {
		d.missingAt = v.StartOffset
	}
	return s, err
}

// program reads a command, which a shell would have found behind a ~.
func (d *decoder) program(v hujson.Value) (string, error) {
	s, err := d.expanded(v)
	return d.env.atHome(s), err
}

// path reads a path, relative to the project's folder.
func (d *decoder) path(v hujson.Value) (string, error) {
	s, err := d.expanded(v)
	return d.absolute(s), err
}

func (d *decoder) absolute(path string) string {
	if path = d.env.atHome(path); path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(d.source.project(), path)
}

func (e environment) atHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && e.home != "" && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator) {
		return filepath.Join(e.home, rest)
	}
	return path
}

// lookup knows VS Code's and Cursor's names too.
func (d *decoder) lookup(name string) (string, bool) {
	switch name {
	case "workspaceFolder":
		return d.source.project(), true
	case "userHome":
		return d.env.home, d.env.home != ""
	}
	return d.env.lookup(name)
}

// project is the folder that the file is about: its own, or the one above
// where an editor keeps the file in a folder of its own.
func (s source) project() string {
	folder := filepath.Dir(s.path)
	if base := filepath.Base(folder); base == ".vscode" || base == ".cursor" {
		return filepath.Dir(folder)
	}
	return folder
}
