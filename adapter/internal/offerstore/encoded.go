package offerstore

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/mcp-metarouter/metarouter/registry"
)

// An offer is stored as its values one after the other, without their names: numbers as varints,
// texts and bytes behind their lengths, lists behind the numbers of their elements. With hundreds of
// servers, to read JSON would be most of the start.

// encode returns the offer of a server as it is stored.
func encode(server string, o registry.Offer) ([]byte, error) {
	dropped, err := json.Marshal(o.Dropped)
	if err != nil {
		return nil, err
	}
	confirmed, err := json.Marshal(o.Confirmed)
	if err != nil {
		return nil, err
	}
	e := encoder(make([]byte, 0, sizeOf(&o)*9/8+1024))
	e.text(server)
	e.number(len(o.Tools))
	for i := range o.Tools {
		e.tool(&o.Tools[i])
	}
	e.number(len(o.Prompts))
	for _, p := range o.Prompts {
		e.texts(p.Name, p.Title, p.Description)
		e.bytes(p.Definition)
		e.list(p.Repairs)
	}
	e.number(len(o.Resources))
	for _, r := range o.Resources {
		e.texts(r.URI, r.Name, r.Title, r.Description, r.MIMEType)
		e.bytes(r.Definition)
		e.list(r.Repairs)
	}
	e.number(len(o.Templates))
	for _, t := range o.Templates {
		e.texts(t.URITemplate, t.Name, t.Title, t.Description, t.MIMEType)
		e.bytes(t.Definition)
		e.list(t.Repairs)
	}
	e.bytes(o.Capabilities)
	e.bytes(o.Extensions)
	e.text(o.Version)
	e.bytes(dropped)
	e.number(len(o.LastSeen))
	for _, name := range slices.Sorted(maps.Keys(o.LastSeen)) {
		e.text(name)
		e.bytes(o.LastSeen[name])
	}
	e.bytes(confirmed)
	for i := range o.Tools { // few tools have one
		if schema := o.Tools[i].ServerSchema; schema != nil {
			e.number(i)
			e.bytes(schema)
		}
	}
	return e, nil
}

// decode is the inverse of encode. The raw JSON of the offer is a part of data.
func decode(data []byte) (server string, o registry.Offer, err error) {
	d := &decoder{rest: data}
	server = d.text()
	for range d.count() {
		o.Tools = append(o.Tools, d.tool(server))
	}
	for range d.count() {
		p := registry.Prompt{Server: server, Name: d.text(), Title: d.text(), Description: d.text(), Definition: d.bytes(), Repairs: d.list()}
		p.ID = registry.ID(server, p.Name)
		o.Prompts = append(o.Prompts, p)
	}
	for range d.count() {
		r := registry.Resource{Server: server, URI: d.text(), Name: d.text(), Title: d.text(), Description: d.text(), MIMEType: d.text(), Definition: d.bytes(), Repairs: d.list()}
		r.ID = registry.ID(server, r.URI)
		o.Resources = append(o.Resources, r)
	}
	for range d.count() {
		t := registry.Template{Server: server, URITemplate: d.text(), Name: d.text(), Title: d.text(), Description: d.text(), MIMEType: d.text(), Definition: d.bytes(), Repairs: d.list()}
		t.ID = registry.ID(server, t.URITemplate)
		o.Templates = append(o.Templates, t)
	}
	o.Capabilities, o.Extensions, o.Version = d.bytes(), d.bytes(), d.text()
	dropped := d.bytes()
	for range d.count() {
		if o.LastSeen == nil {
			o.LastSeen = make(map[string]json.RawMessage)
		}
		name := d.text()
		o.LastSeen[name] = d.bytes()
	}
	confirmed := d.bytes()
	for len(d.rest) > 0 {
		i, schema := d.number(), d.bytes()
		if i >= len(o.Tools) {
			d.failed = true
			break
		}
		o.Tools[i].ServerSchema = schema
	}
	if d.failed || len(d.rest) > 0 {
		return "", registry.Offer{}, errors.New("the values are not those of an offer")
	}
	return server, o, errors.Join(json.Unmarshal(dropped, &o.Dropped), json.Unmarshal(confirmed, &o.Confirmed))
}

// An encoder appends values.
type encoder []byte

func (e *encoder) number(n int) { *e = binary.AppendUvarint(*e, uint64(n)) }

// bytes appends bytes; nil differs from an empty slice.
func (e *encoder) bytes(b []byte) {
	if b == nil {
		e.number(0)
		return
	}
	e.number(len(b) + 1)
	*e = append(*e, b...)
}

func (e *encoder) text(s string) {
	e.number(len(s))
	*e = append(*e, s...)
}

func (e *encoder) texts(all ...string) {
	for _, s := range all {
		e.text(s)
	}
}

func (e *encoder) list(all []string) {
	e.number(len(all))
	e.texts(all...)
}

// tool appends a tool. The schema of its arguments is mostly a part of its definition.
func (e *encoder) tool(t *registry.NormalizedTool) {
	e.texts(t.Name, t.Original, t.Title, t.Description, t.Doubt)
	e.list(t.Capabilities)
	for _, hint := range hintsOf(&t.Hints) {
		e.number(answer(*hint))
	}
	e.bytes(t.Definition)
	at := -1
	if len(t.InputSchema) > 0 {
		at = bytes.Index(t.Definition, t.InputSchema)
	}
	e.number(at + 1)
	if at < 0 {
		e.bytes(t.InputSchema)
	} else {
		e.number(len(t.InputSchema))
	}
	e.bytes(t.Flat)
	e.list(t.Repairs)
}

// hintsOf returns the hints, in the order in which they are stored.
func hintsOf(h *registry.Hints) [4]**bool {
	return [4]**bool{&h.ReadOnly, &h.Destructive, &h.Idempotent, &h.OpenWorld}
}

// answer returns the number as which a hint is stored.
func answer(hint *bool) int {
	switch {
	case hint == nil:
		return 0
	case *hint:
		return 1
	}
	return 2
}

// A decoder reads what an encoder has appended. After a failure it returns zero values.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) number() int {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || n > maxStored {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return int(n)
}

// count returns the number of elements of a list, each of which takes a byte at least.
func (d *decoder) count() int {
	n := d.number()
	if n > len(d.rest) {
		d.failed, d.rest = true, nil
		return 0
	}
	return n
}

// take returns the next n bytes.
func (d *decoder) take(n int) []byte {
	if n > len(d.rest) {
		d.failed, d.rest = true, nil
		return nil
	}
	taken := d.rest[:n:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *decoder) bytes() []byte {
	n := d.number()
	if n == 0 {
		return nil
	}
	return d.take(n - 1)
}

func (d *decoder) text() string { return string(d.take(d.number())) }

func (d *decoder) list() (all []string) {
	for range d.count() {
		all = append(all, d.text())
	}
	return all
}

func (d *decoder) tool(server string) registry.NormalizedTool {
	t := registry.NormalizedTool{Server: server, Name: d.text(), Original: d.text(), Title: d.text(), Description: d.text(), Doubt: d.text(), Capabilities: d.list()}
	t.ID = registry.ID(server, t.Name)
	for _, hint := range hintsOf(&t.Hints) {
		switch d.number() {
		case 1:
			*hint = new(true)
		case 2:
			*hint = new(false)
		}
	}
	t.Definition = d.bytes()
	if at := d.number(); at == 0 {
		t.InputSchema = d.bytes()
	} else if end := at - 1 + d.number(); end <= len(t.Definition) {
		t.InputSchema = t.Definition[at-1 : end : end]
	} else {
		d.failed = true
	}
	t.Flat, t.Repairs = d.bytes(), d.list()
	return t
}
