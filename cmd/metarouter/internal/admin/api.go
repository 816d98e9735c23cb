package admin

import (
	"encoding/json"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/serverrow"
)

// The JSON between the router and its page. GET /dashboard/events is a stream of server-sent events, each
// of the type "state" with an update as JSON: the first one has everything, the others
// have what has changed since. They come at most once per second, or when the calls change that
// wait for approval.

// An update has what has changed. Absent fields have not changed.
type update struct {
	Full    bool           `json:"full,omitempty"` // the update has everything; drop the old state
	Now     time.Time      `json:"now"`
	Router  *routerInfo    `json:"router,omitempty"`
	Order   []string       `json:"order,omitzero"`    // the names of all servers, if one came or went
	Servers []serverInfo   `json:"servers,omitempty"` // those that have changed
	Calls   []call         `json:"calls,omitempty"`   // that have ended since, the oldest first; at most 100
	Skipped int            `json:"skipped,omitempty"` // calls that have ended since and are not in Calls
	Rates   []second       `json:"rates,omitempty"`   // seconds that are over since, the oldest first; of 5 minutes in a full one
	Latency *histogram     `json:"latency,omitempty"` // of the calls of the last 5 minutes
	Catalog *catalog       `json:"catalog,omitempty"`
	Config  *configuration `json:"config,omitempty"`
	Clients *clientList    `json:"clients,omitempty"`
	Cluster *clusterInfo   `json:"cluster,omitempty"` // with "in": false after the router has left it

	Approvals []approval.Pending `json:"approvals,omitzero"` // the calls that wait for a person's approval, the oldest first
}

// A clientList has the clients that the router serves.
type clientList struct {
	Total   int          `json:"total"`
	Clients []clientInfo `json:"clients"` // at most 100, the oldest first
}

// A clientInfo is a client with a session, or one without that sent a request in the last 10
// minutes; clients without a session that give themselves the same name count as one.
type clientInfo struct {
	Name            string    `json:"name"` // as the client says, "" if it does not say; of plain JSON-RPC from its User-Agent
	Version         string    `json:"version"`
	Era             string    `json:"era"` // "legacy", "modern" or "", for plain JSON-RPC
	ProtocolVersion string    `json:"protocol_version"`
	Transport       string    `json:"transport"` // "stdio", "http" or "plain"
	Mode            string    `json:"mode"`      // "direct" or "search"
	Profiles        []string  `json:"profiles"`  // that it has chosen, or "default" if there is one; one may be a union, "dev|ops", or "@read"
	Principal       string    `json:"principal"` // the name of its token, or the beginning of the token's hash; "" without a token
	Calls           int64     `json:"calls"`     // of tools
	Since           time.Time `json:"since"`
	Last            time.Time `json:"last,omitzero"` // its last request; absent with a session
}

// A clusterInfo is the router's cluster.
type clusterInfo struct {
	In        bool       `json:"in"` // the router is in one
	Connected bool       `json:"connected"`
	JetStream bool       `json:"jetstream"` // the lists of servers can be read
	URL       string     `json:"url,omitempty"`
	Server    string     `json:"server,omitempty"`   // the version of NATS
	Problems  []string   `json:"problems,omitempty"` // but those of single nodes
	Nodes     []nodeInfo `json:"nodes"`              // this one first; at most 200
	Total     int        `json:"total"`
}

// A nodeInfo is a node of the cluster.
type nodeInfo struct {
	Node     string    `json:"node"`
	Key      string    `json:"key"`
	Self     bool      `json:"self"`
	Trusted  bool      `json:"trusted"`
	Alive    bool      `json:"alive"`
	Version  string    `json:"version"`
	Servers  []string  `json:"servers"` // that it shares
	Tools    int       `json:"tools"`   // of these
	Latency  float64   `json:"latency_ms"`
	LastSeen time.Time `json:"last_seen,omitzero"` // absent if it is alive
	Problem  string    `json:"problem,omitempty"`
	Sent     traffic   `json:"sent"`     // calls of this router's clients that it was asked to run
	Received traffic   `json:"received"` // calls of its clients that this router was asked to run
}

// A traffic counts calls since the router was started.
type traffic struct {
	Calls  uint64 `json:"calls"`
	Failed uint64 `json:"failed"` // not run, or with an unknown result
}

// A routerInfo is the router itself.
type routerInfo struct {
	Version     string    `json:"version"`
	Node        string    `json:"node"`
	Mode        string    `json:"mode"` // "direct" or "search": what clients see
	Since       time.Time `json:"since"`
	ListTokens  int       `json:"list_tokens"`  // what the list of all tools costs a model
	ShownTokens int       `json:"shown_tokens"` // what the list that clients see costs
	LoggedIn    bool      `json:"logged_in"`    // the page's browser has logged in, and may log out with POST logout
	Principal   string    `json:"principal"`    // who has logged in there; "" without a login
}

// A serverInfo is one server.
type serverInfo struct {
	serverrow.Row            // of a server of another node, that can't be started and stopped here, too
	ByHand        bool       `json:"by_hand"`                 // started or stopped on the page, until its entry is edited
	ChangedTools  int        `json:"changed_tools,omitempty"` // whose definitions changed since a person last looked, and
	Changed       []string   `json:"changed,omitempty"`       // the names of the first 20
	ChangedHints  int        `json:"changed_hints,omitempty"` // tools that claim to do less harm than a person has confirmed, and
	Hints         []Hint     `json:"hints,omitempty"`         // the first 20
	Problem       string     `json:"problem,omitempty"`       // why it does not work, in plain words, and
	Fix           string     `json:"fix,omitempty"`           // what to do about it, as 'metarouter doctor' says it; absent if it works
	Login         *loginInfo `json:"login,omitempty"`         // at a remote server; absent if it has none and needs none
	Doing         string     `json:"doing"`                   // what its start waits for
	StrayLines    int64      `json:"stray_lines"`             // on its stdout
	Calls         int        `json:"calls"`                   // under way
	Waiting       int        `json:"waiting"`                 // calls that wait for their turn

	Stderr  []string  `json:"stderr"`  // the last lines, at most 10
	Latency []float64 `json:"latency"` // of its last calls, ms, the oldest first; at most 40
}

// A call is a call that has ended.
type call struct {
	Seq       int64           `json:"seq"`  // counted from 1
	Time      time.Time       `json:"time"` // when it began
	Trace     string          `json:"trace"`
	Client    string          `json:"client"`
	Principal string          `json:"principal,omitempty"` // the name of the token, over HTTP
	Profile   string          `json:"profile,omitempty"`   // what limits the client, joined by "+", such as "@read+dev|ops"
	Server    string          `json:"server"`              // "metarouter" for the router's own tools
	Tool      string          `json:"tool"`
	Answered  string          `json:"answered,omitempty"` // the ID of the tool that answered, if it is another one
	MS        float64         `json:"ms"`
	In        int             `json:"bytes_in"`
	Out       int             `json:"bytes_out"`
	Attempts  int             `json:"attempts"`
	Outcome   execute.Outcome `json:"outcome"`         // ok tool_error server_error invalid_arguments not_approved no_answer cancelled
	Fault     string          `json:"fault,omitempty"` // what went wrong; of a tool_error the tool's own first line
	Cached    bool            `json:"cached,omitempty"`
}

// A second says how many calls ended in it.
type second struct {
	Unix   int64 `json:"t"`
	OK     int   `json:"ok"`
	Failed int   `json:"failed"`
}

// A histogram counts calls by how long they took: Counts[i] those of less than
// Bounds[i] ms and not less than the bound before; the last count, which has no bound,
// all others.
type histogram struct {
	Bounds []float64 `json:"bounds"` // ms
	Counts []int     `json:"counts"` // one more than bounds
	P50    float64   `json:"p50"`    // ms, as far as the bounds tell; 0 if there was no call
	P95    float64   `json:"p95"`
	P99    float64   `json:"p99"`
}

// A catalog says that the tools have changed: what was asked of GET /dashboard/tools
// may be out of date.
type catalog struct {
	Tools        int   `json:"tools"`
	Prompts      int   `json:"prompts"`
	Resources    int   `json:"resources"` // and templates
	Capabilities []Tag `json:"capabilities"`
}

// A configuration is the loaded configuration, without values of variables, headers and
// tokens.
type configuration struct {
	Files    []string         `json:"files"`
	Loaded   time.Time        `json:"loaded"`
	Problems []config.Problem `json:"problems"` // file, line, column, server, message, severity, fix
	Entries  []entry          `json:"entries"`
	Rejected string           `json:"rejected,omitempty"` // why the present content of the files is not in use; "" if it is in use
	Approve  string           `json:"approve,omitempty"`  // the command that approves the present content, if it waits for that
	Edit     *edit            `json:"edit,omitempty"`     // the last one, absent if there was none
}

// An entry is the entry of a server, as the router understands it.
type entry struct {
	Name      string            `json:"name"`
	Transport string            `json:"transport"`
	Command   string            `json:"command,omitempty"`  // with its arguments, as a person would type it
	URL       string            `json:"url,omitempty"`      // without user and query
	Env       []string          `json:"env,omitempty"`      // names
	Headers   []string          `json:"headers,omitempty"`  // names
	Settings  map[string]string `json:"settings,omitempty"` // what is not the default: timeout, lazy, group …
}

// An edit is what the last change of the files changed.
type edit struct {
	At      time.Time `json:"at"`
	Added   []string  `json:"added"` // servers
	Removed []string  `json:"removed"`
	Changed []change  `json:"changed"`
	Router  bool      `json:"router"`  // the "metarouter" object
	Restart []string  `json:"restart"` // keys of that object whose edit takes effect at the router's next start
}

// A change lists the edited fields of an entry that existed before.
type change struct {
	Server string   `json:"server"`
	Fields []string `json:"fields"` // such as args
}

// GET /dashboard/profiles answers with what clients of each profile may see now.
type profiles struct {
	Profiles []profileInfo `json:"profiles"` // by name
}

// A profileInfo is a profile, and what it allows.
type profileInfo struct {
	Name      string   `json:"name"`
	Servers   []string `json:"servers"` // those that it allows and that exist
	Tools     int      `json:"tools"`   // that it allows
	Asked     int      `json:"asked"`   // those of them before whose calls a person is asked
	Fixed     int      `json:"fixed"`   // those of them with fixed arguments
	Prompts   int      `json:"prompts"`
	Resources int      `json:"resources"` // and templates
	ReadOnly  bool     `json:"read_only"`
	Mode      string   `json:"mode"` // "auto", "direct" or "search"; "" is the router's
}

// GET /dashboard/tool?id=ID answers with all of one tool.
type wholeTool struct {
	Tool
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Definition   json.RawMessage `json:"definition"`
	Repairs      []string        `json:"repairs,omitempty"`
}

// POST /dashboard/servers/NAME/ACTION, where the action is restart, stop, start, seen or logout,
// with the body {}, answers with the server as [Servers] when that is done, or with a refusal. Login
// answers with a begunLogin. What is stopped stays so until it is started here, its entry is edited or
// the router ends. After seen, no tool of the server counts as changed.
