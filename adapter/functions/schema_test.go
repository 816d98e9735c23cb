package functions

import (
	"context"
	"encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

type (
	Place struct {
		City string `json:"city"`
	}
	colour  string
	degrees map[string]float64
	raw     struct{ Any json.RawMessage }
	choice  struct{ text string }
	moment  struct {
		time.Time
		Zone string
	}
	tagged struct {
		Place `json:"place"`
	}
	pointed struct{ *Place }
	hidden  struct{ *secretPlace }
	quoted  struct {
		N int64 `json:"n,string"`
	}
	secretPlace struct{ City string }
)

func (c choice) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"choice": c.text})
}
func (c *choice) UnmarshalJSON(b []byte) error { c.text = "chosen"; return nil }

// echo adds a function that returns its argument, calls it with the arguments, and compares: all
// arguments that fit the schema are read, and the result fits the schema.
func echo[T any](t *testing.T, arguments string) {
	t.Helper()
	f := provider(t, "own", Options{})
	expect.OK(t, Add(f, Function{Name: "echo"}, func(_ context.Context, in T) (T, error) { return in, nil }))
	r, err := adapter.Execute(t.Context(), f, "own:echo", json.RawMessage(arguments))
	if err != nil || r.IsError || string(r.Structured()) != arguments {
		t.Errorf("%s became %s, %v; schema %s", arguments, r.JSON, err, f.Tools()[0].InputSchema)
	}
	fits(t, f.Tools()[0].Definition, r)
}

// fits checks a result against the schema of the tool's results, if there is one.
func fits(t *testing.T, definition json.RawMessage, r selector.Result) {
	t.Helper()
	raw := wire.Member(definition, "outputSchema")
	if raw == nil {
		return
	}
	var s jsonschema.Schema
	var value any
	expect.OK(t, json.Unmarshal(raw, &s))
	expect.OK(t, json.Unmarshal(r.Structured(), &value))
	resolved, err := s.Resolve(nil)
	expect.OK(t, err)
	expect.OK(t, resolved.Validate(value), "%s does not fit %s", r.Structured(), raw)
}

func TestSchemas(t *testing.T) {
	echo[struct{ Place }](t, `{"city":"Oslo"}`)
	echo[pointed](t, `{"city":"Oslo"}`)
	echo[struct {
		P *Place `json:"p"`
		Q *Place `json:"q,omitempty"`
	}](t, `{"p":null}`)
	echo[map[colour][]Place](t, `{"red":[{"city":"Oslo"}],"the sea":null}`)
	echo[struct{ B []byte }](t, `{"B":"aGk="}`)
	echo[struct{ B []byte }](t, `{"B":null}`)
	echo[struct{ A [2]byte }](t, `{"A":[1,2]}`)
	echo[struct{ A netip.Addr }](t, `{"A":"192.0.2.1"}`)
	echo[struct{ A *netip.Addr }](t, `{"A":null}`)
	echo[raw](t, `{"Any":{"a":[1]}}`)
	echo[raw](t, `{"Any":7}`)
	echo[struct{ R *json.RawMessage }](t, `{"R":"x"}`)
	echo[struct{ N json.Number }](t, `{"N":1.50}`)
	echo[struct{ I *big.Int }](t, `{"I":123456789012345678901234567890}`)
	echo[struct{ T time.Time }](t, `{"T":"2026-01-02T03:04:05Z"}`)
	echo[struct {
		T *time.Time `json:"t,omitempty"`
	}](t, `{}`)
	echo[struct{ D time.Duration }](t, `{"D":1000}`)
	echo[struct{ X any }](t, `{"X":[null]}`)
	echo[struct {
		Größe int `json:"größe"`
		No    int `json:"-"`
	}](t, `{"größe":1}`)
	echo[struct{ C choice }](t, `{"C":{"choice":"chosen"}}`)
}

// Each result is an object that fits its schema.
func TestOutputs(t *testing.T) {
	f := provider(t, "own", Options{})
	returns(t, f, choice{"x"}, `{"choice":"x"}`)
	returns(t, f, json.RawMessage(`{"a":1}`), `{"a":1}`)
	returns(t, f, json.RawMessage(`[1]`), `{"result":[1]}`)
	returns(t, f, []byte("hi"), `{"result":"aGk="}`)
	returns(t, f, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), `{"result":"2026-01-02T03:04:05Z"}`)
	returns(t, f, degrees(nil), `{}`)
	returns(t, f, degrees{"Oslo": -3.5}, `{"Oslo":-3.5}`)
	returns(t, f, []int(nil), `{"result":null}`)
	returns(t, f, (*Place)(nil), `{"result":null}`)
	returns(t, f, &Place{"Oslo"}, `{"city":"Oslo"}`)
	returns(t, f, struct{}{}, `{}`)
	returns[any](t, f, nil, `{"result":null}`)
}

func returns[T any](t *testing.T, f *Provider, out T, want string) {
	t.Helper()
	expect.OK(t, Add(f, Function{Name: "out"}, func(context.Context, struct{}) (T, error) { return out, nil }))
	r, err := adapter.Execute(t.Context(), f, "own:out", nil)
	if err != nil || r.IsError || string(r.Structured()) != want {
		t.Errorf("%#v became %s, %v", out, r.JSON, err)
	}
	fits(t, f.Tools()[0].Definition, r)
}

// A type that a schema can't describe is an error, and not a function that loses its arguments.
func TestNoSchemas(t *testing.T) {
	for _, tc := range []struct {
		t    reflect.Type
		want string
	}{
		{reflect.TypeFor[tagged](), "embedded Place"},
		{reflect.TypeFor[[]tagged](), "embedded Place"},
		{reflect.TypeFor[hidden](), "embedded secretPlace"},
		{reflect.TypeFor[struct{ colour }](), ""}, // encoding/json has nothing of it
		{reflect.TypeFor[quoted](), `option "string"`},
		{reflect.TypeFor[moment](), "arguments are functions.moment"},
		{reflect.TypeFor[time.Time](), "arguments are time.Time"},
		{reflect.TypeFor[json.RawMessage](), "arguments are json.RawMessage"},
		{reflect.TypeFor[[]int](), "arguments are []int"},
		{reflect.TypeFor[map[int]string](), "map key"},
		{reflect.TypeFor[chain](), "cycle"},
		{reflect.TypeFor[struct{ F func() }](), "func()"},
	} {
		_, err := inputSchema(tc.t)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.t, err)
		}
	}
}
