package catalog

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Whatever a file says, decode returns an error or an offer that encodes to the same again.
func FuzzDecode(f *testing.F) {
	for _, o := range []registry.Offer{{}, stored(&testing.T{}, "s")} {
		data, err := encode("s", o)
		expect.OK(f, err)
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		server, o, err := decode(data)
		if err != nil {
			return
		}
		again, err := encode(server, o)
		expect.OK(t, err)
		name, same, err := decode(again)
		if err != nil || name != server || !reflect.DeepEqual(same, o) {
			t.Errorf("%q decodes to %+v, and encoded to %+v, %v", data, o, same, err)
		}
	})
}

// The schema of a decoded tool is a part of its definition and takes no memory of its own. What is
// appended to either reaches nothing else.
func TestDecodeShares(t *testing.T) {
	one := tool("s", "t", "")
	one.InputSchema = json.RawMessage(`{"type":"object"}`)
	one.Definition = json.RawMessage(`{"name":"t","inputSchema":{"type":"object"},"title":"T"}`)
	one.ServerSchema = json.RawMessage(`{"type":"object","minProperties":1}`)
	data, err := encode("s", registry.Offer{Tools: []registry.NormalizedTool{tool("s", "first", ""), one}})
	expect.OK(t, err)
	_, o, err := decode(data)
	expect.OK(t, err)
	definition, schema := o.Tools[1].Definition, o.Tools[1].InputSchema
	if o.Tools[0].ServerSchema != nil || string(o.Tools[1].ServerSchema) != string(one.ServerSchema) {
		t.Errorf("the server's schemas are %s and %s", o.Tools[0].ServerSchema, o.Tools[1].ServerSchema)
	}
	if at := bytes.Index(definition, schema); at < 0 || &definition[at] != &schema[0] {
		t.Error("the schema is a copy")
	}
	for what, part := range map[string]json.RawMessage{"definition": definition, "schema": schema} {
		expect.Equal(t, cap(part), len(part), "there is room for %d bytes after the %s", cap(part)-len(part), what)
	}
}

func BenchmarkLoad(b *testing.B) {
	o := registry.Offer{}
	for i := range 10 {
		t := tool("s", string(rune('a'+i)), "Searches the orders of a shop by the customer's name.", "search")
		t.InputSchema = json.RawMessage(`{"type":"object","properties":{"customer":{"type":"string","description":"The name of the customer."}}}`)
		t.Definition = bytes.Join([][]byte{[]byte(`{"name":"t","inputSchema":`), t.InputSchema, []byte(`}`)}, nil)
		o.Tools = append(o.Tools, t)
	}
	s := newStore(b.TempDir(), zap.NewNop())
	expect.OK(b, s.save("k", "s", o))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := s.load("k", "s"); !ok {
			b.Fatal("it is not stored")
		}
	}
}
