package config

import (
	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
)

// An Endpoint is an OpenAI-compatible API.
type Endpoint struct {
	URL     string            `key:"url,address"` // the base, such as http://127.0.0.1:11434/v1
	Model   string            `key:"model,expanded"`
	Headers map[string]string `key:"headers,expanded"`
}

// An Assist is the "assist" object: the model that is asked where a search is not sure.
type Assist struct {
	Sampling bool // the client's own model, by MCP sampling; Endpoint is empty then
	Endpoint
}

// assistField decodes "assist": "sampling", or an endpoint.
func assistField(d *decoder, to **Assist) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		*to = nil
		if s, err := text(m.Value); err == nil && s == "sampling" {
			*to = &Assist{Sampling: true}
			return
		}
		if _, ok := m.Value.Value.(*hujson.Object); !ok {
			d.mistake(m.Name.StartOffset, `"assist" must be "sampling" or an object; write {"url": "http://127.0.0.1:11434/v1", "model": "…"}`)
			return
		}
		if e, ok := endpointOf(d, m); ok {
			*to = &Assist{Endpoint: e}
		}
	}
}

// embeddingsField decodes "embeddings": an endpoint.
func embeddingsField(d *decoder, to **Endpoint) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		*to = nil
		if e, ok := endpointOf(d, m); ok {
			*to = &e
		}
	}
}

// endpointOf decodes an endpoint. Any mistake leaves it unused.
func endpointOf(d *decoder, m hujson.ObjectMember) (e Endpoint, ok bool) {
	before := d.mistakes
	d.missing = variables{}
	d.to(&e, "")(m)
	missing := d.missing
	d.missing = variables{}
	switch {
	case missing.any():
		d.mistake(d.missingAt, "%q is not used: %s", jsonc.Key(m), missing)
	case d.mistakes > before: // the reason is reported already
	case e.URL == "" || e.Model == "":
		d.mistake(m.Name.StartOffset, `%q needs "url" and "model"; write {"url": "http://127.0.0.1:11434/v1", "model": "…"}`, jsonc.Key(m))
	default:
		return e, true
	}
	return e, false
}
