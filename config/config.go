package config

import "time"

// A Config is one or more configuration files as a value. It is not modified
// after Load has returned it.
type Config struct {
	Files    []string // absolute paths of the files that were read, in order
	Servers  []Server // in the order of the files; names are unique
	Router   Router
	Problems []Problem // everything that is wrong, in the order of the files
}

// A Server is one entry of mcpServers, expanded and ready to start, or with the
// reason why it can't be.
type Server struct {
	Name      string
	Transport Transport

	Command    string
	Args       []string
	Env        map[string]string // envFile's variables, then env's
	Cwd        string            // absolute, or "" for the router's own
	InheritEnv []string          // names of further variables of ours that the child gets; "*" is all

	URL     string
	Headers map[string]string

	Disabled      bool
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
	AccessLog       string
	HTTP            HTTP
	Capabilities    map[string][]string // tag -> words that imply it; adds to and overrides the taxonomy
	Classification  []byte              // the "classification" object as plain JSON, nil if absent
}

// HTTP is where and for whom the HTTP face serves.
type HTTP struct {
	Addr           string // default "127.0.0.1:8787"
	AllowedHosts   []string
	AllowedOrigins []string
	Tokens         []string
	MaxBody        int64  // bytes; default 16 MiB
	Rate           string // "" is no limit
}

// A Problem is one thing that is wrong in a file.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`    // from 1; 0 if it is not about a place in the file
	Column  int    `json:"column"`  // from 1, in bytes
	Server  string `json:"server"`  // "" if it is not about one server
	Message string `json:"message"` // what is wrong and what to write instead
}
