package admin

import (
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/server"
)

// The JSON between the router and its page. GET /dashboard/events is a stream of server-sent events, each
// of the type "state" with an update as JSON. An update comes at most once per second, or when the list of
// calls that wait for approval changes.

// The first update has everything. In later ones, absent fields have not changed.
type update struct {
	Full    bool            `json:"full,omitempty"` // the update has everything; drop the old state
	Now     time.Time       `json:"now"`
	Router  *routerInfo     `json:"router,omitempty"`
	Servers []ServerDetails `json:"servers,omitzero"`  // all, if one has changed
	Calls   []endedCall     `json:"calls,omitempty"`   // since the last update, the oldest first; at most 200
	Skipped int             `json:"skipped,omitempty"` // number of ended calls that are not in Calls
	Catalog *catalog        `json:"catalog,omitempty"`
	Config  *configuration  `json:"config,omitempty"`
	Clients *clientList     `json:"clients,omitempty"`

	Approvals []approval.Pending `json:"approvals,omitzero"` // the calls that wait for a person's approval, the oldest first
}

type clientList struct {
	Total   int          `json:"total"`
	Clients []clientInfo `json:"clients"` // at most 100, the oldest first
}

// A clientInfo is a client with a session, or one without that sent a request in the last 10
// minutes; clients without a session that give themselves the same name count as one.
type clientInfo struct {
	server.Client
	Era      string   `json:"era"`      // "legacy", "modern" or "", for plain JSON-RPC
	Profiles []string `json:"profiles"` // the chosen ones, or "default" if there is one; one may be a union, "dev|ops", or "@read"
}

type routerInfo struct {
	Version     string    `json:"version"`
	Node        string    `json:"node"`
	Mode        string    `json:"mode"` // "direct", "search" or "code"
	Since       time.Time `json:"since"`
	ListTokens  int       `json:"list_tokens"`  // cost of the list of all tools
	ShownTokens int       `json:"shown_tokens"` // cost of the list that clients see
	LoggedIn    bool      `json:"logged_in"`    // the page's browser has logged in, and may log out with POST logout
	Principal   string    `json:"principal"`    // the person who has logged in there; "" without a login
}

// An endedCall is a call of a tool that has ended.
type endedCall struct {
	Seq       int64           `json:"seq"`  // counted from 1
	Time      time.Time       `json:"time"` // when it began
	Trace     string          `json:"trace"`
	Script    string          `json:"script,omitempty"` // the id of the script that made the call
	Client    string          `json:"client"`
	Principal string          `json:"principal,omitempty"` // the name of the token, over HTTP
	Profile   string          `json:"profile,omitempty"`   // limits of the client, joined by "+", such as "@read+dev|ops"
	Server    string          `json:"server"`              // "metarouter" for the router's own tools
	Tool      string          `json:"tool"`
	Answered  string          `json:"answered,omitempty"` // the ID of the tool that answered, if it is another one
	MS        float64         `json:"ms"`
	In        int             `json:"bytes_in"`
	Out       int             `json:"bytes_out"`
	Attempts  int             `json:"attempts"`
	Outcome   execute.Outcome `json:"outcome"`         // ok tool_error server_error invalid_arguments not_approved no_answer cancelled
	Fault     string          `json:"fault,omitempty"` // the reason of a failure; of a tool_error the tool's own first line
	Cached    bool            `json:"cached,omitempty"`
}

// A catalog says that the tools have changed: answers of GET /dashboard/tools may be out of date.
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
	Approve  string           `json:"approve,omitempty"`  // the command that approves the present content, if it waits for approval
	unused   error            // why the present content of the files is not in use; nil if it is
}

// An entry is the entry of a server, as the router understands it.
type entry struct {
	Name      string   `json:"name"`
	Transport string   `json:"transport"`
	Command   string   `json:"command,omitempty"` // with its arguments, as a person would type it
	URL       string   `json:"url,omitempty"`     // without user and query
	Env       []string `json:"env,omitempty"`     // names
	Headers   []string `json:"headers,omitempty"` // names
}

// POST /dashboard/servers/NAME/ACTION, where the action is restart, stop, start, seen or logout,
// with the body {}, answers with the server as [Servers] when the action is done, or with a refusal. Login
// answers with a begunLogin. A stopped server stays stopped until it is started here, its entry is edited or
// the router ends. After seen, no tool of the server counts as changed.
