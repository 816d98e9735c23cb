package registry

import "encoding/json"

// A storedOffer is an offer as it is kept. Raw JSON is kept as bytes, since
// encoding/json would compact it.
type storedOffer struct {
	Server       string            `json:"server"`
	Tools        []storedTool      `json:"tools"`
	Prompts      []storedPrompt    `json:"prompts"`
	Resources    []storedResource  `json:"resources"`
	Templates    []storedTemplate  `json:"templates"`
	Capabilities []byte            `json:"capabilities"`
	Extensions   []byte            `json:"extensions"`
	Version      string            `json:"version,omitempty"`
	Dropped      []Dropped         `json:"dropped,omitempty"`
	LastSeen     map[string][]byte `json:"last_seen,omitempty"`
	Confirmed    map[string]Hints  `json:"confirmed,omitempty"`
}

// In each of these the outer fields hide the inner ones of the same name.
type (
	storedTool struct {
		NormalizedTool
		InputSchema []byte `json:"input_schema"`
		Definition  []byte `json:"definition"`
		Flat        []byte `json:"flat,omitempty"`
	}
	storedPrompt struct {
		Prompt
		Definition []byte `json:"definition"`
	}
	storedResource struct {
		Resource
		Definition []byte `json:"definition"`
	}
	storedTemplate struct {
		Template
		Definition []byte `json:"definition"`
	}
)

func store(server string, o Offer) storedOffer {
	return storedOffer{
		Server:       server,
		Tools:        each(o.Tools, func(t NormalizedTool) storedTool { return storedTool{t, t.InputSchema, t.Definition, t.Flat} }),
		Prompts:      each(o.Prompts, func(p Prompt) storedPrompt { return storedPrompt{p, p.Definition} }),
		Resources:    each(o.Resources, func(r Resource) storedResource { return storedResource{r, r.Definition} }),
		Templates:    each(o.Templates, func(t Template) storedTemplate { return storedTemplate{t, t.Definition} }),
		Capabilities: o.Capabilities,
		Extensions:   o.Extensions,
		Version:      o.Version,
		Dropped:      o.Dropped,
		LastSeen:     eachValue[[]byte](o.LastSeen),
		Confirmed:    o.Confirmed,
	}
}

func (s storedOffer) offer() Offer {
	return Offer{
		Tools: each(s.Tools, func(t storedTool) NormalizedTool {
			t.NormalizedTool.InputSchema, t.NormalizedTool.Definition, t.NormalizedTool.Flat = t.InputSchema, t.Definition, t.Flat
			return t.NormalizedTool
		}),
		Prompts: each(s.Prompts, func(p storedPrompt) Prompt {
			p.Prompt.Definition = p.Definition
			return p.Prompt
		}),
		Resources: each(s.Resources, func(r storedResource) Resource {
			r.Resource.Definition = r.Definition
			return r.Resource
		}),
		Templates: each(s.Templates, func(t storedTemplate) Template {
			t.Template.Definition = t.Definition
			return t.Template
		}),
		Capabilities: s.Capabilities,
		Extensions:   s.Extensions,
		Version:      s.Version,
		Dropped:      s.Dropped,
		LastSeen:     eachValue[json.RawMessage](s.LastSeen),
		Confirmed:    s.Confirmed,
	}
}

// each returns f of each element, nil for none.
func each[A, B any](list []A, f func(A) B) []B {
	var all []B
	for _, a := range list {
		all = append(all, f(a))
	}
	return all
}

// eachValue returns the map with its values as another type, nil for none.
func eachValue[B, A ~[]byte](all map[string]A) map[string]B {
	if len(all) == 0 {
		return nil
	}
	converted := make(map[string]B, len(all))
	for name, a := range all {
		converted[name] = B(a)
	}
	return converted
}
