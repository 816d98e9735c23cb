package config

import "github.com/tailscale/hujson"

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

// decode leaves out what is wrong.
func (a *Assist) decode(d *decoder, at int, v hujson.Value) error {
	s, err := text(v)
	if *a = (Assist{Sampling: err == nil && s == "sampling"}); a.Sampling {
		return nil
	}
	return a.Endpoint.decode(d, at, v)
}

// decode leaves out an endpoint with any mistake.
func (e *Endpoint) decode(d *decoder, at int, v hujson.Value) error {
	*e = Endpoint{}
	key := lastStep(d.level)
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		d.mistake(at, "%q %s", key, nodeAt(d.level).Says)
		return errLeftOut
	}
	before := d.mistakes
	d.missing = variables{}
	d.object(o, d.keys(e, nil))
	missing := d.missing
	d.missing = variables{}
	switch {
	case missing.any():
		d.mistake(d.missingAt, "%q is not used: %s", key, missing)
	case d.mistakes > before: // the reason is reported already
	case e.URL == "" || e.Model == "":
		d.mistake(at, `%q needs "url" and "model"; write {"url": "http://127.0.0.1:11434/v1", "model": "…"}`, key)
	default:
		return nil
	}
	return errLeftOut
}
