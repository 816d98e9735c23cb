package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/script/host"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/taglist"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
)

// findArguments are the arguments of find_tools.
type findArguments struct {
	Query        string   `json:"query"`
	Kinds        []string `json:"kinds"`
	Limit        float64  `json:"limit"` // a whole number, but 5.0 is one too
	Capabilities []string `json:"capabilities"`
	Servers      []string `json:"servers"`
	Budget       float64  `json:"budget_tokens"`
}

const (
	sureLimit     = 5  // tools of a sure answer, and of one that nothing fits
	unsureLimit   = 10 // of one that is not sure
	defaultBudget = 2000

	maxNearest = 3 // that route_task names if no tool fits

	// maxMore is how many tools are named beyond the limit, if the budget allows:
	// an ID costs little, and may be the right one.
	maxMore = 10

	maxLimit  = 50                             // as the tool's schema says
	maxBudget = (1 << 20) / content.TokenBytes // tokens of an answer
)

// Found is the answer of find_tools.
type Found struct {
	Sure                bool          `json:"sure"`           // the confidence in the first is at least findThreshold, and the next is less likely
	Abstained           bool          `json:"abstained"`      // nothing fits: the tools are the nearest
	By                  string        `json:"by,omitempty"`   // how the tools were found: "ranking", or "words" if the encoder does not know the language or some of them
	Hint                string        `json:"hint,omitempty"` // the next step if the answer is not sure
	Tools               []foundItem   `json:"tools"`
	MissingCapabilities []string      `json:"missing_capabilities,omitempty"` // asked for, but the best tool lacks them
	More                []string      `json:"more,omitempty"`                 // IDs of the next ones; describe_tools says more
	Omitted             int           `json:"omitted,omitempty"`              // found, but the budget had no room for them
	ServersNotUp        []serverState `json:"servers_not_up,omitempty"`
}

// A foundItem is one tool, prompt, resource, template or skill in an answer, in as much detail
// as the budget allows.
type foundItem struct {
	ID string `json:"id"`
	placement
	handle
	Declaration  string          `json:"declaration,omitempty"` // in TypeScript, in place of Description, Signature, Output and InputSchema
	Description  string          `json:"description,omitempty"`
	Signature    string          `json:"signature,omitempty"`
	Capabilities []string        `json:"capabilities,omitempty"`
	Score        float64         `json:"score"`
	Confidence   float64         `json:"confidence"`
	Output       string          `json:"output,omitempty"` // the type of the structured content; part of Signature if there is one
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	Mentions     []string        `json:"mentions,omitempty"`            // IDs of tools of its server that the words of a skill name
	Instructions string          `json:"server_instructions,omitempty"` // of the server, with its first item, if the budget allows
}

// A handle says how to use a prompt, resource or template; it is empty for tools that are not listed.
type handle struct {
	Kind        string                    `json:"kind,omitempty"`
	URI         string                    `json:"uri,omitempty"`          // for resources/read
	URITemplate string                    `json:"uri_template,omitempty"` // of such URIs
	Name        string                    `json:"name,omitempty"`         // for prompts/get; of a tool in direct mode, as it is listed
	Arguments   []registry.PromptArgument `json:"arguments,omitempty"`    // for prompts/get
}

// A finder finds and describes the tools, prompts and resources of servers.
type finder struct{ *Options }

// find answers find_tools.
func (f *finder) find(ctx context.Context, a findArguments, c *toolCall) (json.RawMessage, error) {
	if n := max(len(a.Kinds), len(a.Capabilities), len(a.Servers)); n > taglist.Max {
		return failure("find_tools: a list of %d names is too long; send at most %d", n, taglist.Max), nil
	}
	reply := Found{Tools: []foundItem{}}
	limit := int(min(max(cmp.Or(a.Limit, unsureLimit), 1), maxLimit))
	query := selector.Query{Task: a.Query, Kinds: a.Kinds, Capabilities: a.Capabilities, Servers: a.Servers, Limit: limit + maxMore}
	before := f.Router.Snapshot()
	ranking, err := f.Router.Find(ctx, query)
	if err == nil && !ranking.Sure && f.Catalog.Settle(ctx, before) {
		ranking, err = f.Router.Find(ctx, query)
	}
	if err != nil {
		return nil, err
	}
	if ranking.Abstained || ranking.Sure && a.Limit == 0 {
		limit = min(limit, sureLimit)
	}
	first := ranking.Candidates[:min(len(ranking.Candidates), limit)]
	direct := !f.Catalog.View().Options.Search // clients load the schemas themselves
	entries, left := f.entries(first, int(min(max(cmp.Or(a.Budget, defaultBudget), 1), maxBudget)), ranking.Sure && !direct, c.declares)
	if len(entries) == len(first) && !ranking.Abstained {
		reply.More = idsOf(ranking.Candidates[len(first):], left)
	}
	reply.Sure, reply.Abstained, reply.Hint = ranking.Sure, ranking.Abstained, hint(ranking, direct, c.declares)
	servers := f.Router.Servers()
	if len(ranking.Candidates) == 0 && len(servers) == 0 {
		reply.Hint = "No MCP server is configured, so there is no tool. The user adds servers with 'metarouter import', 'metarouter add' or 'metarouter init'."
	}
	if reply.By = ranking.By; ranking.By == selector.ByWords {
		reply.Hint = strings.TrimSpace(reply.Hint + " This search went by words alone, since the router does not know the language or still reads new tools: search again in English, or in a moment.")
	}
	isUnknown := func(name string) bool {
		return !slices.ContainsFunc(servers, func(s status.Server) bool { return strings.EqualFold(s.Name, name) })
	}
	if i := slices.IndexFunc(a.Servers, isUnknown); i >= 0 {
		reply.Hint = fmt.Sprintf("No server has the name %.100q: use the name of a server, or leave \"servers\" out. ", a.Servers[i]) + reply.Hint
	}
	reply.MissingCapabilities = ranking.Partial
	reply.Omitted = len(first) - len(entries)
	reply.ServersNotUp = f.notUp(first, a.Servers)
	if !ranking.Sure && slices.ContainsFunc(reply.ServersNotUp, func(s serverState) bool { return s.State == string(status.Starting) }) {
		reply.Hint += " Servers that are still starting may have more tools: search again in a moment."
	}
	reply.Tools = entries
	return answer(reply), nil
}

// hint proposes the next step after an answer that is not sure.
func hint(r selector.Ranking, direct, scripts bool) string {
	runs := "call_tool"
	if scripts {
		runs = "run_script"
	}
	switch {
	case r.Sure:
		return ""
	case len(r.Candidates) == 0:
		return "Nothing was found. Search again with other words."
	case direct:
		return "None of these is a sure match. Search again with other words, or load one of them by its name."
	case r.Abstained:
		return "Nothing fits; these are the nearest. Say the task in other words and search again. describe_tools and " + runs + " work with these, too."
	}
	return "None of these is a sure match. Search again with other words, or use one of them: describe_tools shows its schema, " + runs + " runs it."
}

// notUp returns the servers that do not run and that matter for a search: one of
// their tools was found, or their tools are not known and could have been found. If
// servers are given, only those could have been found.
func (f *finder) notUp(candidates []selector.Candidate, servers []string) []serverState {
	var down []serverState
	for _, i := range f.Router.Servers() {
		if slices.Contains(calm, i.State) {
			continue
		}
		unknown := i.Tools == 0 && (len(servers) == 0 || slices.ContainsFunc(servers, func(name string) bool { return strings.EqualFold(name, i.Name) }))
		if unknown || slices.ContainsFunc(candidates, func(c selector.Candidate) bool { return c.Item().Server() == i.Name }) {
			down = append(down, serverState{i.Name, string(i.State), firstSentence(i.LastError)})
		}
	}
	return down
}

// A serverState is the state of a server that does not run.
type serverState struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"` // in one line
}

// calm are the states of servers whose tools can be called, and of those that are not meant to run.
var calm = []status.State{status.Ready, status.Idle, status.Disabled, status.Self}

// idsOf returns as many IDs of candidates as fit into left bytes.
func idsOf(candidates []selector.Candidate, left int) (ids []string) {
	for _, c := range candidates {
		id := c.Item().ID()
		if left -= len(wire.Marshal(id)) + 1; left < 0 {
			break
		}
		ids = append(ids, id)
	}
	return ids
}

// entries returns the candidates in as much detail as the budget, in tokens, allows:
// the best with its schema if that is wanted, the others as signatures, then ids alone,
// then nothing. With declares, declarations take the place of schemas and signatures. left is how many
// bytes of the budget remain.
func (f *finder) entries(candidates []selector.Candidate, budget int, schema, declares bool) (entries []foundItem, left int) {
	entries = make([]foundItem, 0, len(candidates))
	left = budget * content.TokenBytes
	seen := make(map[string]bool) // servers
	for i, c := range candidates {
		details := f.details(c, declares)
		if i > 0 || !schema {
			details = details[len(details)-2:]
		}
		fits := slices.IndexFunc(details, func(e foundItem) bool { return len(wire.Marshal(e)) <= left })
		if fits < 0 {
			if i > 0 {
				break
			}
			fits = len(details) - 1 // the best candidate is always named
		}
		e := details[fits]
		if server := c.Item().Server(); !seen[server] {
			seen[server] = true
			full := e
			if full.Instructions = f.instructions(server, maxFoundInstructions); len(wire.Marshal(full)) <= left {
				e = full
			}
		}
		left -= len(wire.Marshal(e)) + 1
		entries = append(entries, e)
	}
	return entries, left
}

// maxFoundInstructions bounds the bytes of a server's instructions in an answer of find_tools.
const maxFoundInstructions = 500

// instructions returns at most so many bytes of a server's instructions.
func (f *finder) instructions(server string, most int) string {
	return prose.Cut(f.Router.Snapshot().Offer(server).Instructions, most)
}

// details returns the ways to describe a candidate, the most detailed first. The last
// two have no schema.
func (f *finder) details(c selector.Candidate, declares bool) []foundItem {
	if c.Tool == nil {
		return f.otherDetails(c)
	}
	bare := foundItem{ID: c.Tool.ID, placement: placementOf(c.Places, c.Ambiguous), Score: round(c.Score), Confidence: round(c.Confidence)}
	if view := f.Catalog.View(); !view.Options.Search {
		bare.Name = view.Names.Exposed(c.Tool)
	}
	sentence := firstSentence(c.Tool.Description)
	if declares {
		full, brief, line := bare, bare, bare
		full.Declaration = host.Declare(c.Tool, c.Tool.Description, script.Full)
		brief.Declaration, line.Declaration = host.Declare(c.Tool, sentence, script.Brief), host.Declare(c.Tool, sentence, script.Line)
		return []foundItem{full, brief, line, bare}
	}

	full := bare
	full.Description, full.Capabilities, full.InputSchema = c.Tool.Description, c.Tool.Capabilities, c.Tool.InputSchema
	full.Output = outputType(c.Tool)
	brief := full
	brief.Description = sentence
	line := bare
	line.Signature, line.Capabilities = signature(c.Tool), c.Tool.Capabilities
	if sentence != "" {
		line.Signature += " — " + sentence
	}
	return []foundItem{full, brief, line, bare}
}

// signature returns the tool in one line, as [declaration.Signature] does.
func signature(t *registry.NormalizedTool) string {
	return script.Signature(t.Name, t.InputSchema, wire.Member(t.Definition, "outputSchema"))
}

// outputType returns the type of the structured content that the tool declares; "" if it declares nothing.
func outputType(t *registry.NormalizedTool) string {
	return script.Result(wire.Member(t.Definition, "outputSchema"))
}

// otherDetails is details for a prompt, resource or template.
func (f *finder) otherDetails(c selector.Candidate) []foundItem {
	full := foundItem{ID: c.Item().ID(), Score: round(c.Score), Confidence: round(c.Confidence)}
	full.Kind = c.Item().Kind()
	switch {
	case c.Prompt != nil:
		full.Name, full.Arguments = f.Catalog.View().Prompts.Exposed(c.Prompt), c.Prompt.Arguments()
		full.Description = cmp.Or(c.Prompt.Description, c.Prompt.Title)
	case c.Resource != nil:
		full.URI = f.exposedURI(c.Resource.Server, c.Resource.URI)
		full.Description = cmp.Or(c.Resource.Description, c.Resource.Title, c.Resource.Name)
	case c.Skill != nil:
		full.URI, _ = f.Catalog.View().Skill(c.Skill, false)
		full.Description, full.Mentions = c.Skill.Description, f.mentions(c.Skill)
	case c.Template != nil:
		full.URITemplate = f.exposedURI(c.Template.Server, c.Template.URI)
		full.Description = cmp.Or(c.Template.Description, c.Template.Title, c.Template.Name)
	}
	line := full
	line.Description = firstSentence(full.Description)
	bare := line
	bare.Description, bare.Arguments, bare.Mentions = "", nil, nil
	return []foundItem{full, line, bare}
}

// mentions returns the IDs of the tools of a skill's server whose names stand in the skill's frontmatter.
func (f *finder) mentions(s *registry.Skill) (ids []string) {
	words := make(map[string]bool)
	for word := range strings.FieldsFuncSeq(string(wire.Member(s.Definition, "frontmatter")), func(r rune) bool { return strings.ContainsRune(" \"',.:;()`\\/", r) }) {
		words[word] = true
	}
	names := f.Catalog.View().Names
	for _, t := range f.Router.Snapshot().Offer(s.Server).Tools {
		if words[t.Name] || words[names.Exposed(t)] {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// exposedURI returns the URI or URI template under which clients see a server's.
func (f *finder) exposedURI(server, uri string) string {
	return f.Catalog.View().Exposed(catalog.Address{Server: server, URI: uri})
}

const maxSentence = 200

// firstSentence returns the first sentence of a text, on one line and cut if it is
// long.
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
