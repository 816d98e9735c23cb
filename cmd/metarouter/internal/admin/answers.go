package admin

import (
	"encoding/json"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/classify"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// The JSON between the router and commands; the page uses a part of it.
//
// With the parameter profile=NAME, the answer is limited to the servers and tools of clients of that profile;
// with an empty NAME, of clients without a profile. With wait=1 the router first waits for servers that
// are not known yet. An answer may have "notes", lines for the person who asks.

// A Refusal has a status of 400 or more: 400 and 404 if the request names or says something wrong.
type Refusal struct {
	Error string `json:"error"` // a sentence
}

// GET /dashboard/tools?q=WORDS&capability=TAG&server=NAME&limit=N answers with Tools. All parameters
// are optional, and capability and server may be repeated. Without q the tools are in the order of their
// IDs, without score. name=NAME asks for the tools of the server of that name, or for the tool of that name;
// changed=1 for tools that changed since a person last looked; schemas=1 for input schemas. With known=1
// an unknown capability is an error.
//
// With wait=1 the named servers must be ready, and tools are found as for a client's find_tools; with
// wait=some, servers that fail are noted.
type Tools struct {
	Sure      bool   `json:"sure"`      // the first fits the words; always true without words
	Abstained bool   `json:"abstained"` // nothing fits: these are the nearest
	By        string `json:"by,omitempty"`
	Total     int    `json:"total"`               // number of all tools
	Fitting   int    `json:"fitting"`             // number that fits the capabilities and the server, or the words
	Described bool   `json:"described,omitempty"` // NAME is the name of a tool
	Tools     []Tool `json:"tools"`               // the first fitting ones: as many as limit says, else 50
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

	Changes     []string        `json:"changes,omitempty"` // how a changed definition differs; empty if the one before was not kept
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
}

// GET /dashboard/capabilities answers with Capabilities, by name.
type Capabilities struct {
	Capabilities []Tag `json:"capabilities"`
}

type Tag struct {
	Name  string `json:"name"`
	Tools int    `json:"tools"` // number of tools that have it
}

// GET /dashboard/servers answers with Servers, as do actions on one. With wait=1, a router that runs
// for the command alone starts the servers first.
type Servers struct {
	Servers []exposure.ServerRow `json:"servers"`
}

// GET /dashboard/servers/NAME answers with a ServerDetails: all about one server.
type ServerDetails struct {
	exposure.ServerRow
	Since      time.Time `json:"since"`             // when it came into its state
	Doing      string    `json:"doing,omitempty"`   // the step of its start that it waits for
	TookMS     int64     `json:"took_ms,omitempty"` // duration of its last start that succeeded
	FetchingMS int64     `json:"fetching_ms,omitempty"`
	Package    string    `json:"package,omitempty"`
	InFlight   int       `json:"calls_in_flight"`
	Waiting    int       `json:"calls_waiting"`
	ByHand     bool      `json:"by_hand,omitempty"`  // it was stopped or started by hand
	Reverted   bool      `json:"reverted,omitempty"` // the entry before an edit runs
	Outdated   string    `json:"outdated,omitempty"` // why its changed lists could not be read
	StrayLines int64     `json:"stray_lines,omitempty"`
	Stderr     []string  `json:"stderr"` // its last lines

	Login *LoginDetails `json:"login,omitempty"` // nil if it has no login, and needs none as far as is known
}

// A LoginDetails describes the login at a server.
type LoginDetails struct {
	LoggedIn bool               `json:"logged_in"`
	Issuer   string             `json:"issuer,omitempty"`
	Scopes   []string           `json:"scopes,omitempty"`
	Expires  time.Time          `json:"expires,omitzero"` // of the access token
	Renews   bool               `json:"renews"`           // the router renews the token by itself
	Needed   status.LoginReason `json:"needed,omitempty"` // why a person must log in
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

// A Consent is the answer of a command's person where a profile asks before a call.
type Consent struct {
	Yes    bool   `json:"yes,omitempty"`    // to every question
	Asks   bool   `json:"asks,omitempty"`   // the command can ask
	Agreed string `json:"agreed,omitempty"` // the question that the person has said yes to
}

// A Call has the parts that all requests for a call have.
type Call struct {
	Consent
	Arguments json.RawMessage `json:"arguments"`       // an object; {} if absent
	Pairs     []string        `json:"pairs,omitempty"` // KEY=VALUE, over the arguments
}

// POST /dashboard/call runs a tool. It answers with a Called, or with a refusal: 409 if
// confirmed is needed.
type CallRequest struct {
	Call
	Tool      string `json:"tool"`      // a name of any form
	Confirmed bool   `json:"confirmed"` // run it even if it may do harm
}

type Called struct {
	Outcome
	Result json.RawMessage `json:"result"` // a CallToolResult; its _meta has trace_id and latency_ms
}

// An Outcome says how a call ended.
type Outcome struct {
	IsError  bool   `json:"is_error,omitempty"`
	Question string `json:"question,omitempty"` // for the person; then nothing was called
	Refused  string `json:"refused,omitempty"`  // why nothing was called, if a person had to be asked first
	Mismatch string `json:"mismatch,omitempty"` // why nothing was called, if the arguments do not fit, with a command that fits
	Sample   string `json:"sample,omitempty"`   // a command with an argument, after a call without any failed
}

// POST /dashboard/route picks the tool for a task, and runs it if that is safe.
type RouteRequest struct {
	Call
	Task         string   `json:"task"`
	Capabilities []string `json:"capabilities,omitempty"`
	DryRun       bool     `json:"dry_run,omitempty"`
}

type Routed struct {
	Outcome
	Route  Route      `json:"route"`
	Picked *Candidate `json:"picked,omitempty"` // absent if no tool was picked
	Ran    bool       `json:"ran"`
	NotRun string     `json:"not_run,omitempty"` // the reason, and a command to write instead
}

// A Route says which tool was picked for a task, and has its result.
type Route struct {
	Tool         string          `json:"tool"`
	Score        float64         `json:"score"`
	Confidence   float64         `json:"confidence"`
	Places       []string        `json:"places,omitempty"`    // servers that have the same tool, the server of Tool first
	Ambiguous    bool            `json:"ambiguous,omitempty"` // nothing says which server is meant
	Sure         bool            `json:"sure"`
	Abstained    bool            `json:"abstained"`
	By           string          `json:"by,omitempty"`
	Missing      []string        `json:"missing,omitempty"` // required arguments that were not given
	Example      json.RawMessage `json:"example,omitempty"` // arguments as they may look; if some are missing
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

// GET /dashboard/why?tool=NAME&for=TASK answers with a [Reasons].

// POST /dashboard/doctor starts the servers that do not run, and answers with a [doctor.Diagnosis].
