package server

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
)

// What find_tools takes.
type findArguments struct {
	Query        string   `json:"query"`
	Kinds        []string `json:"kinds"`
	Limit        float64  `json:"limit"` // a whole number, but 5.0 is one too
	Capabilities []string `json:"capabilities"`
	Servers      []string `json:"servers"`
	Budget       float64  `json:"budget_tokens"`
}

const (
	defaultLimit  = 5
	defaultBudget = 2000
)

// found is the answer of find_tools.
type found struct {
	Tools               []entry       `json:"tools"`
	Abstained           bool          `json:"abstained,omitempty"`            // nothing fits
	Nearest             []entry       `json:"nearest,omitempty"`              // then
	MissingCapabilities []string      `json:"missing_capabilities,omitempty"` // asked for, but the best tool lacks them
	Omitted             int           `json:"omitted,omitempty"`              // tools that the budget had no room for
	ServersNotUp        []serverState `json:"servers_not_up,omitempty"`
	Note                string        `json:"note,omitempty"`
}

// An entry is one tool in an answer, in as much detail as there is room for.
type entry struct {
	ID           string          `json:"id"`
	Description  string          `json:"description,omitempty"`
	Signature    string          `json:"signature,omitempty"`
	Capabilities []string        `json:"capabilities,omitempty"`
	Score        float64         `json:"score"`
	Confidence   float64         `json:"confidence"`
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
}

func (s *Server) findTools(ctx context.Context, args, _ json.RawMessage) (json.RawMessage, error) {
	a := findArguments{Limit: defaultLimit, Budget: defaultBudget}
	if err := json.Unmarshal(args, &a); err != nil {
		return failure("find_tools: %v", err), nil
	}
	reply := found{Tools: []entry{}}
	if slices.ContainsFunc(a.Kinds, func(kind string) bool { return kind != "tool" }) {
		reply.Note = "Only tools are searched; resources and prompts are not known to this search."
		if !slices.Contains(a.Kinds, "tool") {
			return answer(reply), nil
		}
	}
	query := selector.Query{Task: a.Query, Capabilities: a.Capabilities, Servers: a.Servers, Limit: int(a.Limit)}
	before := s.router.Snapshot()
	ranking, err := s.router.Find(ctx, query)
	if err == nil && ranking.Abstained && s.settle(ctx, before) {
		ranking, err = s.router.Find(ctx, query)
	}
	if err != nil {
		return nil, err
	}
	entries := describe(ranking.Candidates, int(a.Budget))
	reply.MissingCapabilities = ranking.Partial
	reply.Omitted = len(ranking.Candidates) - len(entries)
	reply.ServersNotUp = s.notUp(ranking.Candidates, a.Servers)
	if reply.Abstained = ranking.Abstained; ranking.Abstained {
		reply.Nearest = entries
	} else {
		reply.Tools = entries
	}
	return answer(reply), nil
}

// notUp returns the servers that do not run and that matter for what was found:
// their tools are among it, or are not known at all and could have been. With
// servers given, only those could.
func (s *Server) notUp(candidates []selector.Candidate, servers []string) []serverState {
	var down []serverState
	for _, i := range s.router.Servers() {
		if up(i) || off(i) {
			continue
		}
		unknown := i.Tools == 0 && (len(servers) == 0 || slices.Contains(servers, i.Name))
		if unknown || slices.ContainsFunc(candidates, func(c selector.Candidate) bool { return c.Tool.Server == i.Name }) {
			down = append(down, serverState{i.Name, string(i.State), firstSentence(i.LastError)})
		}
	}
	return down
}

// A serverState says how a server is that does not run.
type serverState struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"` // in one line
}

// up reports whether calls to the server's tools are expected to succeed.
func up(i adapter.ServerInfo) bool { return i.State == "ready" || i.State == "idle" }

// off reports whether nobody expects the server to run.
func off(i adapter.ServerInfo) bool { return i.State == "disabled" || i.State == "self" }

// describe returns the candidates in as much detail as the budget allows: the
// best with its schema, the others as signatures, then ids alone, then nothing.
func describe(candidates []selector.Candidate, budget int) []entry {
	entries := make([]entry, 0, len(candidates))
	left := budget * bytesPerToken
	for i, c := range candidates {
		detail := details
		if i > 0 {
			detail = details[2:]
		}
		fits := slices.IndexFunc(detail, func(of func(selector.Candidate) entry) bool { return len(wire.Marshal(of(c))) <= left })
		if fits < 0 {
			if i > 0 {
				break
			}
			fits = len(detail) - 1 // the best is always named
		}
		e := detail[fits](c)
		left -= len(wire.Marshal(e)) + 1
		entries = append(entries, e)
	}
	return entries
}

// details are the ways to describe a candidate, most telling first.
var details = []func(selector.Candidate) entry{
	func(c selector.Candidate) entry {
		e := identify(c)
		e.Description, e.Capabilities, e.InputSchema = c.Tool.Description, c.Tool.Capabilities, c.Tool.InputSchema
		return e
	},
	func(c selector.Candidate) entry {
		e := identify(c)
		e.Description, e.Capabilities, e.InputSchema = firstSentence(c.Tool.Description), c.Tool.Capabilities, c.Tool.InputSchema
		return e
	},
	func(c selector.Candidate) entry {
		e := identify(c)
		e.Signature, e.Capabilities = signature(c.Tool), c.Tool.Capabilities
		if sentence := firstSentence(c.Tool.Description); sentence != "" {
			e.Signature += " — " + sentence
		}
		return e
	},
	identify,
}

func identify(c selector.Candidate) entry {
	return entry{ID: c.Tool.ID, Score: round(c.Score), Confidence: round(c.Confidence)}
}

const maxSentence = 200

// firstSentence returns the first sentence of a text, on one line and cut if long.
func firstSentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if i := strings.Index(text, ". "); i >= 0 {
		text = text[:i+1]
	}
	if runes := []rune(text); len(runes) > maxSentence {
		text = string(runes[:maxSentence-1]) + "…"
	}
	return text
}
