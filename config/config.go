// Package config turns .mcp.json files into a value, and tells of new values
// while the files are edited.
//
// Load reads Claude Code's .mcp.json and its dialects (Claude Desktop, VS Code,
// Cursor, Windsurf, Cline, Gemini, Zed), with comments and trailing commas.
// It promises that one bad entry never stops the others: what is wrong becomes
// a Problem that says where it is and what to write instead, and the server
// that it concerns is Misconfigured. No value of a variable, of env or of
// headers is ever in a Problem or in an error.
//
// Watch sends a new Config for each good edit that changes something.
//
// Everything here may be called from any goroutine; the values are shared
// between them and never modified.
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"time"
)

// A Config is one or more configuration files as a value. It is not modified
// after Load has returned it.
type Config struct {
	Files    []string // absolute paths of the files that were read, in order
	Servers  []Server // in the order of the files; names are unique
	Router   Router
	Problems []Problem // everything that is wrong, in the order of the files

	digests []string // of what each of Files said
}

// A Server is one entry of mcpServers, expanded and ready to start, or with the
// reason why it can't be.
type Server struct {
	Name      string
	Transport Transport

	Command    string
	Args       []string
	Env        map[string]string // envFile's variables, then env's
	EnvFile    string            // absolute path of the envFile that is already in Env, or ""
	Cwd        string            // absolute, or "" for the router's own
	InheritEnv []string          // names of further variables of ours that the child gets; "*" is all

	URL     string
	Headers map[string]string

	Disabled      bool
	ByHand        bool // it is disabled because a person stopped it; no file says so
	Lazy          bool
	Timeout       time.Duration // of one call; default 5m
	StartTimeout  time.Duration // until the tools are listed; default 90s
	IdleTimeout   time.Duration // 0: never stopped for being idle
	MaxConcurrent int           // calls under way at once; default 8

	Capabilities    []string // tags that every tool of it bears
	Group           string   // servers of one group can stand in for each other
	Priority        int      // breaks ties; higher first
	Validate        Validate // of arguments; default ValidateOn
	Retry           string   // "hints" (default), "never" or "always"
	MaxResultTokens int      // 0: no limit
	Cache           time.Duration
	Tools           ToolFilter

	// For some of its tools, by patterns as ToolFilter has them. Of several that match
	// a tool its own name counts, else the longest.
	ToolTimeouts     map[string]time.Duration // instead of Timeout
	ToolResultTokens map[string]int           // instead of MaxResultTokens

	// Misconfigured says why the server can't be started, "" if it can.
	Misconfigured string
	// Self is set where the entry would start a router. It is never started.
	Self bool
}

// Transport says how a server is reached.
type Transport string

const (
	Stdio          Transport = "stdio"
	StreamableHTTP Transport = "http"
	SSE            Transport = "sse"
	// AutoHTTP is a url without a type: streamable HTTP is tried, then SSE.
	AutoHTTP Transport = "auto"
)

// Validate says what becomes of arguments that do not fit the tool's schema.
type Validate string

const (
	ValidateOn   Validate = "on"   // a tool error; the server is not called
	ValidateWarn Validate = "warn" // logged; the server is called
	ValidateOff  Validate = "off"
)

// ToolFilter chooses and renames a server's tools. Patterns are globs as in
// path.Match over the server's own names. Empty Allow allows all.
type ToolFilter struct {
	Allow  []string
	Deny   []string
	Rename map[string]string // the server's own name -> our name
}

// Router is the "metarouter" object of the file: what is ours.
type Router struct {
	Mode            string        // "auto" (default), "search" or "direct"
	Names           string        // "prefixed" (default) or "bare"
	Separator       string        // default "__"; or ".", "-", "/"
	ToolBudget      int           // tokens up to which auto shows all tools; default 10000
	ListWait        time.Duration // default 10s
	Pinned          []string      // tool ids shown beside the fixed ones in search mode
	Lazy            bool
	IdleTimeout     time.Duration
	Timeout         time.Duration // default 5m
	Validate        Validate
	MaxResultTokens int
	RouteThreshold  float64 // default 0.5
	Learning        bool    // default true
	FillArguments   bool
	AccessLog       AccessLog
	HTTP            HTTP
	Capabilities    map[string][]string // tag -> words that imply it; adds to and overrides the taxonomy
	Classification  *Classification     // nil if absent
}

// An AccessLog is where a line is written for each call, and what it says.
type AccessLog struct {
	File      string // absolute; "" is none
	Arguments bool   // with the arguments of calls
	Results   bool   // with their results
	MaxSize   int64  // bytes of a file, beyond which another is begun; default 100 MiB
	MaxFiles  int    // that there are at most, the one that is written to among them; default 5
}

// A Classification is the "classification" object: into which categories texts are
// sorted, and by whom.
type Classification struct {
	Categories   []Category // in the order of their class indices; none: the capability tags
	Rules        []Rule     // for all categories, after those of the category
	Model        string     // for whatever no category and no rule has one; default "default"
	UseReasoning bool       // likewise
	Threshold    float64    // the confidence below which the fallback is the answer; default 0.6
	Fallback     string     // a category's name; "" is none
	MaxText      int        // bytes of a text; default 8192

	Outside *Outside // another classification server that is asked first; nil if there is none
}

// A Category is a class of texts.
type Category struct {
	Name         string
	Description  string
	SystemPrompt string
	Keywords     []string
	Examples     []string // texts of the category
	Model        string   // "" is the Classification's
	UseReasoning *bool    // nil is the Classification's
	Rules        []Rule   // the first that applies decides
}

// A Rule sets the model and the use of reasoning for texts of which all that it
// says is true.
type Rule struct {
	Categories      []string // one of these; none: any
	ConfidenceBelow float64  // 0: any
	MinWords        int      // at least so many; 0: any
	MaxWords        int      // at most so many; 0: any
	Patterns        []string // regular expressions (RE2) of which one matches; none: any text

	Model        string // "" leaves it as it is
	UseReasoning *bool  // nil leaves it as it is
}

// An Outside is a classification server of somebody else's: an entry of the
// configuration, or a URL.
type Outside struct {
	Server  string // the name of an entry; "" if URL is set
	URL     string
	Headers map[string]string // of requests to URL

	ClassifyTool    string        // default "classify_text"
	ListTool        string        // default "list_categories"
	Timeout         time.Duration // of one classification, all attempts together; default 5s
	MaxRetries      int           // after the first attempt; default 3
	CacheCategories bool          // the list is asked for every RefreshInterval only; default true
	RefreshInterval time.Duration // default 5m
	NumCategories   int           // how many it must have; 0: any number
}

// HTTP is where and for whom the HTTP face serves.
type HTTP struct {
	Addr           string // default "127.0.0.1:8787"
	AllowedHosts   []string
	AllowedOrigins []string
	Tokens         []string
	TLSCert        string        // absolute path of the certificate with its chain, PEM; "" is HTTP without TLS
	TLSKey         string        // likewise of its key
	MaxBody        int64         // bytes of a body; default 16 MiB
	MaxHeader      int64         // bytes of a request's line and headers; default 64 KiB
	MaxBatch       int           // messages of one batch; default 100
	ReadTimeout    time.Duration // for a client to send a request; default 1m
	MaxSessions    int           // of clients at a time; default 1000
	SessionTimeout time.Duration // after which an idle session ends; default 30m

	// Rate is what each client may ask for, which is known by its token, else by its
	// address: behind a proxy, all clients without tokens are one. Default any.
	Rate Rate
}

// A Problem is one thing that is wrong in a file. It is an error, so that Load
// can return the one that leaves nothing of the file.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`    // from 1; 0 if it is not about a place in the file
	Column  int    `json:"column"`  // from 1, in bytes
	Server  string `json:"server"`  // "" if it is not about one server
	Message string `json:"message"` // what is wrong and what to write instead

	// Unset names the variables whose lack is what is wrong, with commas between them;
	// "" if it is something else.
	Unset string `json:"-"`
}

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

// Equal reports whether c and d say the same, problems and their places included.
func (c Config) Equal(d Config) bool { return reflect.DeepEqual(c, d) }

// Equal reports whether s and t are the same in every field.
func (s Server) Equal(t Server) bool { return reflect.DeepEqual(s, t) }

// SameSecrets reports whether s and t have the same env and headers. An entry
// that was edited there must not fall back to what it said before: the old
// secrets may have been taken back.
func (s Server) SameSecrets(t Server) bool {
	return maps.Equal(s.Env, t.Env) && maps.Equal(s.Headers, t.Headers)
}

// Hash is 32 hex digits over what determines what the server says: how it is
// started or reached, and not its name or how we treat it. Stored catalogs are
// kept under it.
func (s Server) Hash() string {
	said, err := json.Marshal(struct {
		Transport Transport
		Command   string
		Args      []string          `json:",omitempty"`
		Env       map[string]string `json:",omitempty"`
		Cwd       string
		URL       string
		Headers   map[string]string `json:",omitempty"`
	}{s.Transport, s.Command, s.Args, s.Env, s.Cwd, s.URL, s.Headers})
	if err != nil {
		panic(err) // strings always marshal
	}
	sum := sha256.Sum256(said)
	return hex.EncodeToString(sum[:16])
}
