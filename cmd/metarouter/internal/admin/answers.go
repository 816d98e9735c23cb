package admin

import (
	"encoding/json"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/classify"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// The JSON between the router and commands; the page uses a part of it.
//
// With the parameter profile=NAME, the answer is limited to the servers and tools of clients of that profile;
// with an empty NAME, of clients without a profile. An answer may have "notes", lines for the person who asks.

// A Refusal has a status of 400 or more: 400 and 404 if the request names or says something wrong.
type Refusal struct {
	Error string `json:"error"` // a sentence
}

// POST /dashboard/tools with a ToolsRequest answers with Tools. All fields are optional. A command waits until
// the tools of the servers that it asks about are known, as for a client's find_tools.
type ToolsRequest struct {
	Words        *string  `json:"words,omitempty"` // rank the tools by how well they fit; nil lists them in the order of their IDs
	Capabilities []string `json:"capabilities,omitempty"`
	Servers      []string `json:"servers,omitempty"`
	Name         string   `json:"name,omitempty"`    // lists the tools of the server of that name, or describes the tool of that name
	Limit        int      `json:"limit,omitempty"`   // of tools; 0 is 50
	Known        bool     `json:"known,omitempty"`   // an unknown capability is an error
	Changed      bool     `json:"changed,omitempty"` // only tools that changed since a person last looked, and how; starts no server
	Schemas      bool     `json:"schemas,omitempty"` // with input schemas
}

type Tools struct {
	Sure      bool   `json:"sure"`      // the first fits the words; always true without words
	Abstained bool   `json:"abstained"` // nothing fits: these are the nearest
	By        string `json:"by,omitempty"`
	Total     int    `json:"total"`               // number of all tools
	Fitting   int    `json:"fitting"`             // number that fits the capabilities and the server, or the words
	Described bool   `json:"described,omitempty"` // Name is the name of a tool
	Tools     []Tool `json:"tools"`               // the first fitting ones
}

// A Candidate is a tool that may suit a task.
type Candidate struct {
	ID           string   `json:"id"`
	Tool         string   `json:"tool"` // the same
	Server       string   `json:"server"`
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	Capabilities []string `json:"capabilities"`
	Score        float64  `json:"score"`               // 0 without words
	Confidence   float64  `json:"confidence"`          // likewise
	Places       []string `json:"places,omitempty"`    // servers that have the same tool, the server of ID first
	OtherIDs     []string `json:"other_ids,omitempty"` // of the tool on the other servers
	Ambiguous    bool     `json:"ambiguous,omitempty"` // nothing says which server is meant

	Why *selector.Explanation `json:"why,omitempty"` // shares of features, and of words in fields
}

// A Tool is one of the catalog. GET /dashboard/tool?id=ID answers with all of one tool.
type Tool struct {
	Candidate
	ExposedName string         `json:"exposed_name"`
	Title       string         `json:"title,omitempty"`
	Hints       registry.Hints `json:"hints"` // readOnlyHint, destructiveHint, idempotentHint, openWorldHint; absent if not declared
	Tokens      int            `json:"tokens"`
	Asks        bool           `json:"asks"` // it may change or destroy something, so confirmed must be true in a call

	Changed bool   `json:"changed,omitempty"` // its definition changed since a person last looked
	Held    bool   `json:"held,omitempty"`    // no client sees it, until a person has seen that it is new or changed
	Doubt   string `json:"doubt,omitempty"`   // why its hints are not believed where they say that it does no harm
	Reason  string `json:"reason,omitempty"`  // why it was found, in plain words

	Suspect []string `json:"suspect,omitempty"` // its texts that give a model orders, or hid from people: the place and the words

	Changes      []string        `json:"changes,omitempty"` // how a changed definition differs; empty if the one before was not kept
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"` // this and the next ones only of one tool
	Definition   json.RawMessage `json:"definition,omitempty"`
	Repairs      []string        `json:"repairs,omitempty"`
}

// GET /dashboard/capabilities answers with Capabilities, by name.
type Capabilities struct {
	Capabilities []Tag `json:"capabilities"`
}

type Tag struct {
	Name  string `json:"name"`
	Tools int    `json:"tools"` // number of tools that have it
}

// GET /dashboard/servers answers with Servers, as do actions on one. A router that runs for a command alone
// starts the servers first, unless the parameter watch is set.
type Servers struct {
	Servers []exposure.ServerRow `json:"servers"`
}

// GET /dashboard/servers/NAME answers with a ServerDetails: all about one server, for commands and for the page.
type ServerDetails struct {
	exposure.ServerRow           // its problem and its last error have no secret
	Fix                string    `json:"fix,omitempty"`     // what to do about the problem, as 'metarouter doctor' says it
	Since              time.Time `json:"since"`             // when it came into its state
	Doing              string    `json:"doing,omitempty"`   // the step of its start that it waits for
	TookMS             int64     `json:"took_ms,omitempty"` // duration of its last start that succeeded
	FetchingMS         int64     `json:"fetching_ms,omitempty"`
	Package            string    `json:"package,omitempty"`
	InFlight           int       `json:"calls_in_flight"`
	Waiting            int       `json:"calls_waiting"`      // for their turn
	ByHand             bool      `json:"by_hand,omitempty"`  // it was stopped or started by hand, until its entry is edited
	Reverted           bool      `json:"reverted,omitempty"` // the entry before an edit runs
	Outdated           string    `json:"outdated,omitempty"` // why its changed lists could not be read
	StrayLines         int64     `json:"stray_lines,omitempty"`
	ChangedTools       int       `json:"changed_tools,omitempty"` // number of tools with a definition that changed since a person last looked
	Changed            []string  `json:"changed,omitempty"`       // names of the first 20 of them
	ChangedHints       int       `json:"changed_hints,omitempty"` // number of tools that claim to do less harm than a person has confirmed
	Hints              []Hint    `json:"hints,omitempty"`         // of the first 20 of them
	Stderr             []string  `json:"stderr"`                  // its last lines, at most 10, without secrets

	Login *LoginDetails `json:"login,omitempty"` // nil if it has no login, and needs none as far as is known
}

// A LoginDetails describes the login at a server.
type LoginDetails struct {
	LoggedIn bool      `json:"logged_in"`
	Issuer   string    `json:"issuer,omitempty"`
	Scopes   []string  `json:"scopes,omitempty"`
	Expires  time.Time `json:"expires,omitzero"` // of the access token
	Renews   bool      `json:"renews"`           // the router renews the token by itself
	Needed   string    `json:"needed,omitempty"` // why a person must log in, as the end of a sentence
}

// GET /dashboard/servers/NAME/hints answers with Hints.
type Hints struct {
	Hints []Hint `json:"hints"`
}

// A Hint is a tool with hints that no person has confirmed.
type Hint struct {
	ID      string         `json:"id"`
	Tool    string         `json:"tool"`    // the server's own name
	Hints   registry.Hints `json:"hints"`   // as they are now
	Changes []string       `json:"changes"` // such as "readOnlyHint was missing and is true"
}

// POST /dashboard/servers/NAME/hints with a Confirmation answers as other actions do: the hints in
// it count from then on. It is a refusal if a tool has other hints by now.
type Confirmation struct {
	Hints map[string]registry.Hints `json:"hints"` // by the server's own name of the tool, as they were shown
}

// A Call has the parts that all requests for a call have.
type Call struct {
	Yes       bool            `json:"yes,omitempty"`    // the command's person agrees where a profile asks before a call
	Agreed    string          `json:"agreed,omitempty"` // or has agreed to this question
	Arguments json.RawMessage `json:"arguments"`        // an object; {} if absent
	Pairs     []string        `json:"pairs,omitempty"`  // KEY=VALUE, over the arguments
}

// POST /dashboard/call runs a tool. It answers with an Answer, or with a refusal: 409 if
// confirmed is needed.
type CallRequest struct {
	Call
	Tool      string `json:"tool"`      // a name of any form
	Confirmed bool   `json:"confirmed"` // run it even if it may do harm
}

// POST /dashboard/route picks the tool for a task, and runs it if that is safe.
type RouteRequest struct {
	Call
	Task         string   `json:"task"`
	Capabilities []string `json:"capabilities,omitempty"`
	DryRun       bool     `json:"dry_run,omitempty"`
}

// An Answer says what became of a call or a task.
type Answer struct {
	Route    Route           `json:"route,omitzero"`     // of a task
	Result   json.RawMessage `json:"result,omitempty"`   // a CallToolResult; its _meta has trace_id and latency_ms
	IsError  bool            `json:"is_error,omitempty"` // the result is a failure's
	NotRun   string          `json:"not_run,omitempty"`  // why nothing was called, and a command to write instead
	Question string          `json:"question,omitempty"` // to which the command's person must agree first
}

// A Route says which tool was picked for a task, and has its result. Without a tool, its name is "".
type Route struct {
	Candidate
	Sure         bool            `json:"sure"`
	Abstained    bool            `json:"abstained"`
	By           string          `json:"by,omitempty"`
	Missing      []string        `json:"missing,omitempty"` // required arguments that were not given
	Alternatives []Candidate     `json:"alternatives"`
	Result       json.RawMessage `json:"result,omitempty"`
}

// MaxScriptInput is how many bytes the input of a script may have.
const MaxScriptInput = 1 << 20

// POST /dashboard/script runs a script of a command. It answers with a Scripted, even if the script fails.
type ScriptRequest struct {
	Code    string          `json:"code"`
	Input   json.RawMessage `json:"input,omitempty"`
	Timeout time.Duration   `json:"timeout"` // 0 is the default
	Yes     bool            `json:"yes"`     // its calls may do harm, and those for which a profile asks are approved
}

type Scripted struct {
	Script  selector.ScriptOutcome `json:"script"`
	Refused []string               `json:"refused,omitempty"` // at most 20 calls that Yes would have allowed, with the reason; none if another call may have had an effect
}

// POST /dashboard/classify with a ClassifyRequest answers with a Classified.
type ClassifyRequest struct {
	Text string `json:"text"`
}

type Classified struct {
	Outcome    classify.Outcome `json:"outcome"`
	Categories []string         `json:"categories"` // in the order of the probabilities
}

// POST /dashboard/why with a WhyRequest answers with a [Reasons].
type WhyRequest struct {
	Tool string `json:"tool"` // a name of any form
	Task string `json:"task"` // where does the tool rank for it? "" does not ask
}

// POST /dashboard/doctor starts the servers that do not run, and answers with a [doctor.Diagnosis].
