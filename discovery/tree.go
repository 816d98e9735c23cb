package discovery

import "github.com/tailscale/hujson"

// tree returns the same as [hujson.Parse], but for the offsets, in less than half the time: it
// expects valid JSON without space around it.
func tree(valid []byte) hujson.Value {
	p := parser{rest: valid}
	return hujson.Value{Value: p.value()}
}

// A parser has the rest of a valid text. Parts of the tree are parts of the text.
type parser struct{ rest []byte }

// take returns the next n bytes.
func (p *parser) take(n int) []byte {
	taken := p.rest[:n:n]
	p.rest = p.rest[n:]
	return taken
}

// space returns the space at the beginning, nil without any.
func (p *parser) space() hujson.Extra {
	n := 0
	for n < len(p.rest) && (p.rest[n] == ' ' || p.rest[n] == '\n' || p.rest[n] == '\t' || p.rest[n] == '\r') {
		n++
	}
	if n == 0 {
		return nil
	}
	return p.take(n)
}

func (p *parser) value() hujson.ValueTrimmed {
	switch p.rest[0] {
	case '{':
		return p.object()
	case '[':
		return p.array()
	}
	return p.literal()
}

func (p *parser) object() *hujson.Object {
	o := new(hujson.Object)
	p.take(1)
	before := p.space()
	if p.rest[0] == '}' {
		o.AfterExtra = before
	}
	for p.rest[0] != '}' {
		o.Members = append(o.Members, hujson.ObjectMember{})
		m := &o.Members[len(o.Members)-1]
		m.Name = hujson.Value{BeforeExtra: before, Value: p.literal(), AfterExtra: p.space()}
		p.take(1) // the colon
		m.Value = hujson.Value{BeforeExtra: p.space(), Value: p.value()}
		after := p.space()
		if p.rest[0] == '}' {
			o.AfterExtra = after
			break
		}
		m.Value.AfterExtra = after
		p.take(1) // the comma
		before = p.space()
	}
	p.take(1)
	return o
}

func (p *parser) array() *hujson.Array {
	a := new(hujson.Array)
	p.take(1)
	before := p.space()
	if p.rest[0] == ']' {
		a.AfterExtra = before
	}
	for p.rest[0] != ']' {
		v := hujson.Value{BeforeExtra: before, Value: p.value()}
		after := p.space()
		if p.rest[0] == ']' {
			a.AfterExtra = after
			a.Elements = append(a.Elements, v)
			break
		}
		v.AfterExtra = after
		a.Elements = append(a.Elements, v)
		p.take(1) // the comma
		before = p.space()
	}
	p.take(1)
	return a
}

func (p *parser) literal() hujson.Literal {
	n := 1
	if p.rest[0] == '"' {
		for ; p.rest[n] != '"'; n++ {
			if p.rest[n] == '\\' {
				n++
			}
		}
		return p.take(n + 1)
	}
	for n < len(p.rest) && !endsWord(p.rest[n]) {
		n++
	}
	return p.take(n)
}

// endsWord reports whether a byte comes after a number, a boolean or null.
func endsWord(b byte) bool {
	switch b {
	case ',', ']', '}', ' ', '\n', '\t', '\r':
		return true
	}
	return false
}
