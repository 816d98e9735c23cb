package admin

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// What a server may ask its client.
const (
	askModel = "sampling/createMessage"
	askUser  = "elicitation/create"
)

var (
	errNotAgreed = errors.New("you did not agree")
	errNoPerson  = errors.New("no person can be asked here; run the command on a terminal, or add --yes")
)

// A lonelyClient is the client of a command's call: it has neither a model nor a person to
// answer the questions of servers, and notes what they ask. Only whether to make the call, the
// command's person answers.
type lonelyClient struct {
	consent Consent

	mu       sync.Mutex      // guards the fields below
	question string          // that the person is to be asked; "" for none
	asked    []askedOfClient // each once
}

// An askedOfClient is what a server asked.
type askedOfClient struct{ server, method string }

// Person implements [approval.Asker]. The person has agreed to a question already, or the command
// asks it when it has the answer.
func (c *lonelyClient) Person() approval.Person {
	return func(_ context.Context, question string) (approval.Answer, error) {
		switch {
		case c.consent.Yes || question == c.consent.Agreed:
			return approval.Accept, nil
		case !c.consent.Asks:
			return "", errNoPerson
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.question = question
		return "", errNotAgreed
	}
}

// Home implements [session.Client].
func (*lonelyClient) Home() session.Client { return nil }

// ClientName implements [session.Client].
func (*lonelyClient) ClientName() string { return "metarouter" }

// Modern implements [session.Client]. Questions in a result stay there; see explain.
func (*lonelyClient) Modern() bool { return true }

// Capabilities implements [session.Client].
func (*lonelyClient) Capabilities() json.RawMessage { return json.RawMessage("{}") }

// Notify implements [session.Client].
func (*lonelyClient) Notify(string, session.Message) {}

// Ask implements [session.Client].
func (c *lonelyClient) Ask(_ context.Context, server string, m session.Message) (json.RawMessage, error) {
	c.note(server, m.Method)
	return nil, &session.Error{Code: session.CodeMethodNotFound, Message: "a command line can't answer " + m.Method}
}

func (c *lonelyClient) note(server, method string) {
	q := askedOfClient{server, method}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.asked, q) {
		c.asked = append(c.asked, q)
	}
}

// explain notes what servers asked during the call of the tool, which has ended with the result or
// the error.
func (c *lonelyClient) explain(to *query, tool, server string, result json.RawMessage, err error) {
	// Modern servers ask in the result, or say in an error what the client lacks.
	if kind, _ := wire.String(wire.Member(result, "resultType")); kind == "input_required" {
		wire.Members(wire.Member(result, "inputRequests"), func(_ string, request []byte) bool {
			method, _ := wire.String(wire.Member(request, "method"))
			c.note(server, method)
			return true
		})
	}
	const missingCapability = -32021
	if e, ok := errors.AsType[*session.Error](err); ok && e.Code == missingCapability {
		lacks := wire.Member(e.Data, "requiredCapabilities")
		for _, method := range []string{askModel, askUser} {
			if session.Answers(lacks, method) {
				c.note(server, method)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.asked {
		name := plain.Line(q.server)
		switch q.method {
		case askModel:
			to.note("server %q asked for the answer of a model (sampling), and a command line has no model; call %s from an MCP client that offers sampling, such as VS Code", name, tool)
		case askUser:
			to.note("server %q asked its user a question (elicitation), which a command line can't show; call %s from an MCP client that can, such as VS Code", name, tool)
		}
	}
}
