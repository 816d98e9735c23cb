package registry

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func prompt(server, name, description string) Prompt {
	return Prompt{ID: ID(server, name), Server: server, Name: name, Description: description,
		Definition: fmt.Appendf(nil, `{"name":%q,"arguments":[{"name":"topic","description":"What it is about","required":true},{"name":"tone"}]}`, name)}
}

func resource(server, uri, name string) Resource {
	return Resource{ID: ID(server, uri), Server: server, URI: uri, Name: name, MIMEType: "text/plain", Definition: fmt.Appendf(nil, `{"uri":%q}`, uri)}
}

func template(server, uri, name string) Template {
	return Template{ID: ID(server, uri), Server: server, URI: uri, Name: name, Definition: fmt.Appendf(nil, `{"uriTemplate":%q}`, uri)}
}

// everything returns an offer that has one of each.
func everything(server string) Offer {
	return Offer{
		Tools:        []NormalizedTool{tool(server, "send_letter", "Send a letter")},
		Prompts:      []Prompt{prompt(server, "draft", "Draft a letter")},
		Resources:    []Resource{resource(server, "file:///notes/harbour.md", "Harbour")},
		Templates:    []Template{template(server, "mail://{folder}/{message}", "Message")},
		Capabilities: json.RawMessage(`{"tools":{},"prompts":{},"extensions":{"x":1}}`),
		Extensions:   json.RawMessage(`{"x":1}`),
	}
}

func offer(t *testing.T, r *Registry, server string, o Offer) bool {
	t.Helper()
	changed, err := r.Replace(server, o)
	expect.OK(t, err)
	return changed
}

func TestSnapshotHoldsAll(t *testing.T) {
	r := New()
	offer(t, r, "b", everything("b"))
	a := everything("a")
	a.Prompts = append([]Prompt{prompt("a", "zeta", "")}, a.Prompts...)
	offer(t, r, "a", a)
	s := r.Snapshot()
	want(t, "prompts", ids(s.Prompts()), "a:draft", "a:zeta", "b:draft")
	want(t, "resources", ids(s.Resources()), "a:file:///notes/harbour.md", "b:file:///notes/harbour.md")
	want(t, "templates", ids(s.Templates()), "a:mail://{folder}/{message}", "b:mail://{folder}/{message}")
	want(t, "prompts in the server's order", ids(s.Offer("a").Prompts), "a:zeta", "a:draft")
	if o := s.Offer("b"); string(o.Capabilities) != string(everything("b").Capabilities) || string(o.Extensions) != `{"x":1}` {
		t.Errorf("capabilities %s, extensions %s", o.Capabilities, o.Extensions)
	}
	if o := s.Offer("unknown"); !o.equal(Listing{}) {
		t.Errorf("an unknown server offers %+v", o)
	}
	for _, id := range []string{"b:send_letter", "b:draft", "b:file:///notes/harbour.md", "b:mail://{folder}/{message}"} {
		if items := s.Items(id); len(items) != 1 || items[0].ID() != id || items[0].Server() != "b" {
			t.Errorf("Items(%q) = %+v", id, items)
		}
	}
	if p := find(s.all.Prompts, "a:zeta"); p == nil || p.Name != "zeta" {
		t.Errorf("Prompt = %v", p)
	}
	if find(s.all.Resources, "a:zeta") != nil {
		t.Error("a prompt is taken for a resource")
	}
	r.Remove("b")
	want(t, "prompts without b", ids(r.Snapshot().Prompts()), "a:draft", "a:zeta")
}

// One ID may mean one thing of each kind.
func TestItemsOfOneID(t *testing.T) {
	r := New()
	offer(t, r, "s", Offer{
		Tools: []NormalizedTool{tool("s", "x", "")}, Prompts: []Prompt{prompt("s", "x", "")},
		Resources: []Resource{resource("s", "x", "")}, Templates: []Template{template("s", "x", "")},
	})
	var kinds []string
	for _, item := range r.Snapshot().Items("s:x") {
		kinds = append(kinds, item.Kind())
	}
	want(t, "kinds", kinds, KindTool, KindPrompt, KindResource, KindTemplate)
}

func TestReplaceComparesAll(t *testing.T) {
	edits := map[string]func(*Offer){
		"prompt":       func(o *Offer) { o.Prompts[0].Description = "other" },
		"no prompt":    func(o *Offer) { o.Prompts = nil },
		"resource":     func(o *Offer) { o.Resources[0].Definition = json.RawMessage(`{}`) },
		"template":     func(o *Offer) { o.Templates[0].MIMEType = "a/b" },
		"two":          func(o *Offer) { o.Templates = append(o.Templates, template("s", "x://{y}", "")) },
		"capabilities": func(o *Offer) { o.Capabilities = json.RawMessage(`{}`) },
		"extensions":   func(o *Offer) { o.Extensions = nil },
		"all":          func(o *Offer) { *o = Offer{} },
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			r := New()
			changed := r.Changed()
			offer(t, r, "s", everything("s"))
			before := r.Snapshot()
			<-changed
			if offer(t, r, "s", everything("s")) || r.Snapshot() != before {
				t.Fatal("an equal offer is a change")
			}
			o := everything("s")
			edit(&o)
			changed = r.Changed()
			if !offer(t, r, "s", o) {
				t.Fatal("an edit is no change")
			}
			<-changed
			if name == "all" {
				return
			}
			after := r.Snapshot()
			expect.Equal(t, after.Tools()[0], before.Tools()[0], "the tool has lost its identity")
			if name != "resource" && after.Resources()[0] != before.Resources()[0] {
				t.Error("the resource has lost its identity")
			}
		})
	}
}

func TestReplaceRefusesOthersThatAreNotTheServers(t *testing.T) {
	r := New()
	wrongID := resource("s", "a://b", "")
	wrongID.ID = "s:b"
	for name, bad := range map[string]Offer{
		"another server's": {Prompts: []Prompt{prompt("other", "p", "")}},
		"wrong ID":         {Resources: []Resource{wrongID}},
		"twice":            {Templates: []Template{template("s", "a://{b}", ""), template("s", "a://{b}", "")}},
	} {
		if changed, err := r.Replace("s", bad); err == nil || changed {
			t.Errorf("%s: Replace = %v, %v", name, changed, err)
		}
	}
	expect.Equal(t, r.Snapshot().Version, 0, "the snapshot is now")
}

func TestPromptArguments(t *testing.T) {
	p := prompt("s", "p", "")
	want := []PromptArgument{{Name: "topic", Description: "What it is about", Required: true}, {Name: "tone"}}
	expect.Equal(t, fmt.Sprint(p.Arguments()), fmt.Sprint(want), "arguments")
	for _, definition := range []string{``, `{}`, `{"Arguments":[{"name":"x"}]}`, `{"arguments":{}}`} {
		expect.Equal(t, len((&Prompt{Definition: json.RawMessage(definition)}).Arguments()), 0, "%s has the arguments", definition)
	}
}
