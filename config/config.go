// Package config turns .mcp.json files into a value.
//
// # Reading
//
// [Load] reads Claude Code's .mcp.json and its dialects (Claude Desktop, VS Code, Cursor,
// Windsurf, Cline, Gemini, Zed), with comments and trailing commas. A bad entry never stops
// the others: each mistake becomes a [Problem] with its place and its correction, and the
// server that it concerns is Misconfigured. A Problem or an error never contains the value
// of a variable, of env or of headers. A mistake about a key that restricts never allows more: it
// closes the thing that the key guards, or the file is not used.
//
// # Trust
//
// A stranger may have written a file that was found in the working directory. [Config.Text] knows
// whether a person has approved exactly the text that was read.
//
// # Edits
//
// All keys take effect when an edited file is read again (see package internal/reload), except those
// that [RestartKeys] names.
//
// All functions may be called from any goroutine. Values are shared and never modified.
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/script/stored"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
)

// A Config is one or more configuration files as a value. It is not modified
// after Load has returned it.
type Config struct {
	Files    []string // absolute paths of the files that were read, in order
	Servers  []Server // in the order of the files; names are unique
	Router   Router
	Problems []Problem // all mistakes, in the order of the files

	// Text is the text of the files, which a person approves before a file that was found and
	// not named is used. Its objects are kept if the text is not expanded.
	Text trustfile.Text

	sources []source    // the text
	env     environment // with which it was read
}

// A Server is one entry of mcpServers, with variables expanded, and ready to start or with
// the reason why it can't be started.
type Server struct {
	Name       string
	Transport  Transport `key:"type transport transportType"`
	Command    string
	Args       []string
	Env        map[string]string // envFile's variables, then env's
	EnvFile    string            `key:"envFile"` // absolute path of the envFile that is already in Env, or ""
	Cwd        string            `key:"cwd"`     // absolute; default: the folder of its file, the home folder for the user's own file
	PerFolder  bool              // each client's folder has a process of its own, in that folder: "cwd" is "client"
	Variables  []string          // names of the environment's variables that the entry refers to, sorted
	InheritEnv []string          `key:"inheritEnv"` // names of further variables of the router that the child gets; "*" is all
	KeepStrays bool              // processes that the child starts outside its process group are not killed with it
	Roots      []string          `key:"roots,switch"` // absolute paths or file URIs that the server gets in place of its clients' roots; nil is these, empty is no roots

	URL     string
	Headers map[string]string `key:"headers"`
	OAuth   *OAuth            `key:"oauth"` // nil if absent
	PerUser bool              // each principal has a login and a session of its own: "credentials" is "user", without an Exchange

	// Exchange says what the access token of each principal is exchanged for (RFC 8693), with a session of its own; nil if absent.
	Exchange *Exchange `key:"exchange"`

	Scripts []stored.Script // its tools, of the transport Scripts alone; sorted by name

	Disabled      bool          `key:"disabled"`
	ByHand        bool          // a person disabled it, not the file
	Lazy          bool          `key:"lazy"`
	Timeout       time.Duration `key:"timeout"`       // of one call; default 5m
	StartTimeout  time.Duration `key:"startTimeout"`  // until the tools are listed; default 90s
	IdleTimeout   time.Duration `key:"idleTimeout"`   // 0: never stopped for being idle
	MaxConcurrent int           `key:"maxConcurrent"` // calls under way at once; default 8

	QuestionsPerMinute int `key:"questionsPerMinute"` // how often it may ask its clients something (sampling, elicitation); 0 is the default, 60

	Capabilities    []string      `key:"capabilities"`    // tags that each of its tools has
	Group           string        `key:"group"`           // servers of one group can stand in for each other
	Service         string        `key:"service"`         // servers of several nodes that name the same service are one server; "" for no service
	Priority        int           `key:"priority"`        // of servers that can stand in for each other, the higher one is first
	Validate        string        `key:"validate"`        // of arguments that do not fit the tool's schema: "on" (default, a tool error: the server is not called), "warn" (logged) or "off"
	Retry           string        `key:"retry"`           // "hints" (default), "never" or "always"
	MaxResultTokens int           `key:"maxResultTokens"` // 0: no limit
	Cache           time.Duration `key:"cache"`
	Tools           ToolFilter
	NewTools        string `key:"newTools"`   // "hold" hides new and changed tools until a person has seen them; else they are shown
	TrustHints      bool   `key:"trustHints"` // the hints of its tools (readOnlyHint, destructiveHint) are believed even if their names contradict

	// Values for some of its tools, by patterns as in ToolFilter. If several patterns match
	// a tool, its own name counts, else the longest pattern.
	ToolTimeouts     map[string]time.Duration // instead of Timeout
	ToolResultTokens map[string]int           // instead of MaxResultTokens
	ToolRates        map[string]Rate          // of calls of each principal; default no limit

	// References are those to secrets in Args, Env, URL and Headers, which hold their text, and
	// the command of headersHelper.
	// They are resolved when the server starts or gets a request. A text that is not among
	// these, such as a variable's value, is no reference.
	References []reference.Reference

	// Misconfigured says why the server can't be started, "" if it can.
	Misconfigured string
	// Self is set where the entry would start a router. It is never started.
	Self bool
}

// A Transport is how a server is reached.
type Transport string

const (
	Stdio          Transport = "stdio"
	StreamableHTTP Transport = "http"
	SSE            Transport = "sse"
	// AutoHTTP is a url without a type: streamable HTTP is tried, then SSE.
	AutoHTTP Transport = "auto"
	// Scripts is the bundled server of the stored scripts, in this process. Its entry has this name too.
	Scripts Transport = "scripts"
)

// ToolFilter chooses and renames a server's tools. Patterns are as in package
// internal/glob, compared with the server's own names. Empty Allow allows all.
type ToolFilter struct {
	Allow  []string          `key:"allow"`
	Deny   []string          `key:"deny"`
	Rename map[string]string `key:"rename"` // the server's own name -> our name
}

// Router is the "metarouter" object of the file.
type Router struct {
	Mode            string        `key:"mode"`         // "auto" (default), "search", "direct" or "code"
	Names           string        `key:"names"`        // "prefixed" (default) or "bare"
	Separator       string        `key:"separator"`    // default "__"; or ".", "-", "/"
	ToolBudget      int           `key:"toolBudget"`   // tokens up to which auto shows all tools; default 10000
	ListWait        time.Duration `key:"listWait"`     // default 10s
	LoginTimeout    time.Duration `key:"loginTimeout"` // after which a login ends that its user has not used; default 720h, 0 is never
	Pinned          []string      `key:"pinned"`       // IDs of tools that are listed in search mode too
	Lazy            bool          `key:"lazy"`
	IdleTimeout     time.Duration `key:"idleTimeout"`
	Timeout         time.Duration `key:"timeout"`  // default 5m
	Validate        string        `key:"validate"` // of servers without one
	NewTools        string        `key:"newTools"` // of servers without one
	MaxResultTokens int           `key:"maxResultTokens"`
	FindThreshold   float64       `key:"findThreshold"`  // below 1; 0 if absent, for the default of package selector
	RouteThreshold  float64       `key:"routeThreshold"` // default 0.5
	FindTools       bool          `key:"findTools"`
	AccessLog       AccessLog     `key:"accessLog"`
	Audit           Audit         `key:"audit"`
	HTTP            HTTP          `key:"http"`
	Gateway         struct {      // how the router shows itself to clients
		Name   string `key:"name"`   // in serverInfo; default "metarouter"
		Prefix string `key:"prefix"` // that clients may put before the name of a tool; "" for no prefix
	} `key:"gateway"`
	Scripts struct {
		Folder string `key:"folder"` // of the stored scripts, absolute; "" if there is no folder

		// The bounds of each script that a client runs.
		Timeout    time.Duration `key:"timeout"`    // without waits for a person; default 1m, at most 10m
		CPU        time.Duration `key:"cpu"`        // of the interpreter; default 10s, at most 10m
		Memory     int64         `key:"memory"`     // bytes of the interpreter; default 64 MiB, at most 1 GiB
		Calls      int           `key:"calls"`      // of tools, searches and descriptions; default 100, at most 10,000
		Concurrent int           `key:"concurrent"` // calls at once; default 8, at most 64
	} `key:"scripts"`
	Capabilities   map[string][]string `key:"capabilities"`   // tag -> words that imply it; added to the built-in taxonomy, or instead of its words
	Classification *Classification     `key:"classification"` // nil if absent
	Profiles       map[string]Profile  // by name, which matches [a-z0-9-]{1,32}
	Cluster        *Cluster            `key:"cluster"` // nil if the router is in no cluster

	clusterWithoutURLs *Cluster // the "cluster" of the files if it has no URLs; for JoinCluster
}

// An AccessLog is a file with a line for each call.
type AccessLog struct {
	File      string `key:"file"`      // absolute; "" for no log
	Arguments bool   `key:"arguments"` // the lines contain the arguments of calls
	Results   bool   `key:"results"`   // the lines contain the results of calls
	MaxSize   int64  `key:"maxSize"`   // bytes of a file, after which another is begun; default 100 MiB
	MaxFiles  int    `key:"maxFiles"`  // number of files that are kept, including the current one; default 5
}

// A Classification is the "classification" object: the categories of texts.
type Classification struct {
	Categories   []Category `key:"categories"`                     // in the order of their class indices; without any, the capability tags
	Rules        []Rule     `key:"rules"`                          // for all categories, after the rules of the category
	Model        string     `key:"model"`                          // where neither the category nor a rule has one; default "default"
	UseReasoning bool       `key:"use_reasoning"`                  // where neither the category nor a rule says; default false
	Threshold    float64    `key:"threshold confidence_threshold"` // the confidence below which the fallback is the answer; default 0.6
	Fallback     string     `key:"fallback fallback_category"`     // a category's name; "" for no fallback
	MaxText      int        `key:"max_text"`                       // bytes of a text; default 8192
}

// A Category is a class of texts.
type Category struct {
	Name         string   `key:"name"`
	Description  string   `key:"description"`
	SystemPrompt string   `key:"system_prompt"`
	Keywords     []string `key:"keywords"`
	Examples     []string `key:"examples"`      // texts of the category
	Model        string   `key:"model"`         // "" is the Classification's
	UseReasoning *bool    `key:"use_reasoning"` // nil is the Classification's
	Rules        []Rule   `key:"rules"`         // the first that applies decides
}

// A Rule sets the model and the use of reasoning for texts that meet all its conditions.
type Rule struct {
	Categories      []string `key:"categories"`       // the text is in one of these; empty for any category
	ConfidenceBelow float64  `key:"confidence_below"` // the confidence is below this; 0: any
	MinWords        int      `key:"min_words"`        // the text has at least so many words; 0: any number
	MaxWords        int      `key:"max_words"`        // the text has at most so many words; 0: any number
	Patterns        []string `key:"patterns"`         // regular expressions (RE2), one must match; empty for any text

	Model        string `key:"model"`         // "" leaves it as it is
	UseReasoning *bool  `key:"use_reasoning"` // nil leaves it as it is
}

// HTTP is the "http" object: where the router serves over HTTP, and which clients.
type HTTP struct {
	Addr           string        `key:"addr" edit:"restart"` // default "127.0.0.1:8787"
	AllowedHosts   []string      `key:"allowedHosts"`
	AllowedOrigins []string      `key:"allowedOrigins"`
	PublicURL      string        `key:"publicUrl"` // by which browsers and clients elsewhere reach the router, without a slash at the end; it may have a path; "" if they can't
	Tokens         []Token       `key:"tokens"`
	Issuers        []Issuer      // "oauth": identity providers; their access tokens let clients in
	ClientCA       string        `key:"clientCA" edit:"restart"` // absolute path of the certificates (PEM) by which clients' certificates are signed; "" asks clients for no certificate
	Certificates   []Certificate // of clients that are let in; the first one that matches counts, and more attributes come first
	TLSCert        string        `key:"tlsCert" edit:"restart"`   // absolute path of the certificate with its chain, PEM; "" is HTTP without TLS
	TLSKey         string        `key:"tlsKey" edit:"restart"`    // absolute path of the certificate's key, PEM
	MaxBody        int64         `key:"maxBody"`                  // bytes of a body; default 16 MiB
	MaxBodyMemory  int64         `key:"maxBodyMemory"`            // bytes that the bodies of all requests and long answers take together; default 256 MiB
	MaxHeader      int64         `key:"maxHeader" edit:"restart"` // bytes of a request's line and headers; default 64 KiB
	MaxConnections int           `key:"maxConnections"`           // connections, and requests over HTTP/2, at a time; default 4096
	MaxSessions    int           `key:"maxSessions"`              // of clients at the same time; default 1000
	SessionTimeout time.Duration `key:"sessionTimeout"`           // after which an idle session ends; default 30m

	// Rate limits the requests of each client. Clients are told apart by their tokens, else
	// by their addresses: behind a proxy, all clients without tokens count as one. The
	// default is no limit.
	Rate Rate `key:"rate"`
}

// A Problem is one mistake in a file. It is an error, so that Load can return a mistake
// that makes the whole file unusable.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`    // from 1; 0 if it is not about a place in the file
	Column  int    `json:"column"`  // from 1, in bytes
	Server  string `json:"server"`  // "" if it is not about one server
	Message string `json:"message"` // the mistake, and after "; " the correction

	// Severity is "error" for a value that can't be used as it is written, and "warning" for a value
	// that has no effect, such as that of an unknown key, or is probably not intended.
	Severity string `json:"severity"`
	Fix      string `json:"fix"` // text or a command to be pasted; "" if it is not known

	// Unset names the variables that are not set, separated by commas, if that is the
	// mistake.
	Unset string `json:"-"`

	ClearSecret bool `json:"-"` // the problem is a secret in clear text
}

const (
	severityError   = "error"
	severityWarning = "warning"
)

func (p Problem) Error() string {
	where := p.File
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
	if p.Server != "" {
		return fmt.Sprintf("%s: server %q: %s", where, p.Server, p.Message)
	}
	return where + ": " + p.Message
}

// Equal reports whether c and d are the same, including problems and their places.
func (c Config) Equal(d Config) bool {
	c.sources, d.sources = nil, nil // they may differ in places only
	c.env, d.env = environment{}, environment{}
	return reflect.DeepEqual(c, d)
}

// SameSecrets reports whether s and t have the same env, headers and secrets of oauth. An entry that was
// edited there must not fall back to its old text: the old secrets may be revoked.
func (s Server) SameSecrets(t Server) bool {
	return maps.Equal(s.Env, t.Env) && maps.Equal(s.Headers, t.Headers) && slices.Equal(s.References, t.References) &&
		slices.Equal(s.OAuth.secrets(), t.OAuth.secrets())
}

// Startable reports whether a server of this entry can be started at all.
func (s Server) Startable() bool { return !s.ByHand && !s.Disabled && s.Misconfigured == "" && !s.Self }

// Personal reports whether each user of the router has a session of their own with the server, which is remote.
func (s Server) Personal() bool {
	return s.PerUser || s.Exchange != nil || slices.ContainsFunc(s.References, reference.Reference.Personal)
}

// Launch returns the values of the entry that may be secrets.
func (s Server) Launch() secret.Launch {
	return secret.Launch{Args: s.Args, Env: s.Env, URL: s.URL, Headers: s.Headers, OAuth: s.OAuth.secrets()}
}

// Hash returns 32 hex digits that identify the process, the address or the scripts of the entry. Its
// name and its other keys do not count. Stored catalogs are kept under it.
func (s Server) Hash() string {
	said, err := json.Marshal(struct {
		Transport Transport
		Command   string
		Args      []string          `json:",omitempty"`
		Env       map[string]string `json:",omitempty"`
		Cwd       string
		URL       string
		Headers   map[string]string `json:",omitempty"`
		Scripts   []stored.Script   `json:",omitempty"`
		PerUser   bool              `json:",omitempty"`
		Exchange  *Exchange         `json:",omitempty"`
	}{s.Transport, s.Command, s.Args, s.Env, s.Cwd, s.URL, s.Headers, s.Scripts, s.PerUser, s.Exchange})
	if err != nil {
		panic(err) // strings always marshal
	}
	sum := sha256.Sum256(said)
	return hex.EncodeToString(sum[:16])
}
