package execute

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/glob"
	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Call is one execution of one tool.
type Call struct {
	Tool      *registry.NormalizedTool
	Arguments json.RawMessage // a JSON object; nil is {}

	// Checked is the result of [Executor.Check] for Tool and Arguments, so that they are not checked again; nil if they were not checked.
	Checked *Checked

	// Repaired says how Arguments differ from the client's text; "" if they do not.
	Repaired string

	// From is the client for which the tool runs; nil for the router itself.
	From session.Client

	// Params are the tools/call parameters as the client sent them. Members other than name, arguments and _meta (such as task) reach the server. May
	// be nil if there are no others.
	Params json.RawMessage

	// Meta is the object that the server gets in _meta; may be nil.
	Meta json.RawMessage

	// Approve, if it is set, is called with the arguments as they are sent, before the cache is looked at and a server is called. Its error is why
	// the call is not made. Such a call has no stand-ins: the approval is for this tool.
	Approve func(ctx context.Context, arguments json.RawMessage) error

	// LogIn, if it is set, is called once with the error of the last attempt, after which no other attempt may be made. If it returns true, the call
	// is made again, since a person has logged in at the server, or with an error is not made because of that. The call waits meanwhile, and holds no
	// place in the server's limit.
	LogIn func(ctx context.Context, err error) (bool, error)

	// Unfit reports whether a tool may not stand in for Tool, such as one before which a person must be asked; nil if each tool of the catalog may.
	Unfit func(*registry.NormalizedTool) bool

	// Catalog has the tools that may answer the call; nil is the whole catalog of the registry.
	Catalog *registry.Snapshot

	// Here says that no other node may carry out the call, even if one has a replica of the tool's server: it comes from another node.
	Here bool

	// Principal is who calls, as approvals know it: the SHA-256 of an HTTP token, never logged. PrincipalName is its name and Profile the limits of
	// the call, profiles joined by "+", for observers. Each may be "".
	Principal, PrincipalName, Profile string

	// Rules are the limits of the call as another node gets them; see [session.Origin].
	Rules json.RawMessage

	// Client is the name that the client gives itself, for observers; "" if unknown.
	Client string

	// Script is the id of the script that makes the call, and Line the line of the script; "" and 0 if no script does.
	Script string
	Line   int
}

// Others returns an object with the parameters of the client but the name, the arguments and _meta; nil without others. Those
// are the router's to set: many servers ignore the case of names, and take the last member.
func (c *Call) Others() (others json.RawMessage) {
	for key, value := range wire.All(c.Params) {
		if !slices.ContainsFunc(routerParams, func(name string) bool { return strings.EqualFold(key, name) }) {
			if others == nil {
				others = append(others, '{')
			}
			others = wire.AppendMember(others, key, value)
		}
	}
	if others != nil {
		others = append(others, '}')
	}
	return others
}

// routerParams are the parameters of tools/call that the router writes itself.
var routerParams = []string{"name", "arguments", "_meta"}

// Sessions is where execution finds the servers.
type Sessions interface {
	// Session returns the server's live session. It waits while the server is starting, until ctx ends. Its errors wrap session.ErrNotSent and say in
	// which state the server is and why. from is the client of the call, nil for the router itself: a server that asks its client for something may
	// have a session for each client.
	Session(ctx context.Context, server string, from session.Client) (session.Session, error)

	// Policy says how calls to the server are made.
	Policy(server string) Policy

	// State returns the state of the server, "" if it is not known. It must not wait.
	State(server string) status.State
}

// A Policy says how calls to one server are made. The zero value sets no deadline and validates arguments strictly.
type Policy struct {
	Timeout       time.Duration // of one call with its retries; 0 is no limit
	Validate      Validate
	MustCheck     bool // refuse arguments for which it is not known whether they fit, too; for servers that rely on the check
	MaxConcurrent int  // calls that run at once, others wait; 0 is no limit
	Retry         Retry
	StandIns      []string  // servers that may take calls that this one cannot take, best first
	Twins         []string  // the same server run twice: they stand in for read-only tools
	Location      *Location // where the server works; nil if that is not known

	// Service is set if servers of other nodes are replicas of the server, which any request may go to; nil for other servers.
	Service *Service

	// Gateway is the name of this node if the server runs on another one, which gets the call's Origin; "" for other servers.
	Gateway string

	// Cache is how long the result of a read-only and idempotent tool is used again; 0 is never.
	Cache time.Duration

	// MaxResultTokens is how much text of a result a client gets at once, unless the tool
	// declares a higher limit (anthropic/maxResultSizeChars); 0 is no limit.
	MaxResultTokens int

	// Timeouts and ResultTokens replace Timeout and MaxResultTokens for tools with a name on the server that matches a pattern of package
	// internal/glob. An equal name wins over patterns, a longer pattern over a shorter one.
	Timeouts     map[string]time.Duration
	ResultTokens map[string]int

	// Rates limit how often each principal may call a tool, by patterns as in Timeouts.
	Rates map[string]rate.Limit
}

// Retry says whether a call is repeated after its server ended during the call, when it is unknown whether the call took effect.
type Retry int

const (
	IfHarmless  Retry = iota // if the tool is read-only or idempotent, see [registry.NormalizedTool.Repeatable]
	NeverRetry               // not even then
	AlwaysRetry              // whatever the tool does
)

// Validate is the treatment of arguments that do not fit the tool's schema.
type Validate int

const (
	Strict Validate = iota // the call is answered with a tool error; the server is not called
	Warn                   // the fault is logged; the server is called
	Off                    // arguments are not checked
)

// forTool returns the value for a tool, and the pattern that it belongs to, "" if no pattern
// matches. Of two patterns of the same length the first in the alphabet wins.
func forTool[T any](patterns map[string]T, tool string) (value T, pattern string) {
	if v, ok := patterns[tool]; ok {
		return v, tool
	}
	for p, v := range patterns {
		if glob.Match(p, tool) && (len(p) > len(pattern) || len(p) == len(pattern) && p < pattern) {
			value, pattern = v, p
		}
	}
	return value, pattern
}

// timeout returns the time limit for a call of the tool, or for another request if t is nil, and the pattern that sets it, "" if it is the server's.
func (p *Policy) timeout(t *registry.NormalizedTool) (limit time.Duration, pattern string) {
	if t != nil {
		limit, pattern = forTool(p.Timeouts, t.ServerName())
	}
	if pattern == "" {
		limit = p.Timeout
	}
	return limit, pattern
}
