package frame

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// fill sets all fields of a struct, also of structs in it.
func fill(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"a":[1,"<ü>"]}`))
		return
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case v.Kind() == reflect.String:
		v.SetString(`a "text"` + "\n<é>\u2028")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(-1 << 60)
	case v.CanUint():
		v.SetUint(1 << 63)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		one := reflect.New(v.Type().Elem()).Elem()
		fill(one)
		v.SetMapIndex(reflect.ValueOf("key"), one)
	default:
		panic(v.Type())
	}
}

// Headers are written and read by hand as encoding/json does it, with all members, which it knows
// by the fields of the types. A field that is missing here must be added to encode.go and decode.go.
func TestHeadersAreThoseOfJSON(t *testing.T) {
	var whole Header
	fill(reflect.ValueOf(&whole).Elem())
	empty := whole
	empty.Offer, empty.Result, empty.Error, empty.Message, empty.Beat = &CallOffer{}, &CallResult{}, &Fault{}, &Notification{}, &Beating{}
	empty.Body, empty.Part = &Body{}, &Range{}
	offered := offer()
	offered.Offer.Origin.Name = "only"
	for name, h := range map[string]Header{"whole": whole, "empty parts": empty, "nothing": {}, "offer": offered} {
		ours, err := appendHeader(nil, &h)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		for writer, text := range map[string][]byte{"ours": ours, "that of encoding/json": theirs} {
			var byHand, byJSON Header
			if err := decodeHeader(text, &byHand); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			if err := json.Unmarshal(text, &byJSON); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			a, _ := json.Marshal(byHand)
			b, _ := json.Marshal(byJSON)
			if string(a) != string(theirs) || string(b) != string(theirs) {
				t.Errorf("%s, %s is read\n as %s\nand %s\nwant %s", name, writer, a, b, theirs)
			}
		}
	}
}

// A header that encoding/json refuses is refused.
func TestHeadersOfOtherTypesAreRefused(t *testing.T) {
	for _, text := range []string{
		``, `[]`, `1`, `"kind"`, `{`, `{"kind":1}`, `{"from":"x"}`, `{"from":{"Key":1}}`, `{"time":"1"}`, `{"time":1.5}`, `{"time":9223372036854775808}`,
		`{"seq":-1}`, `{"ended":"x"}`, `{"ended":[1]}`, `{"running":1}`, `{"running":"true"}`, `{"body":[]}`, `{"body":{"size":1e3}}`,
		`{"offer":{"direct":0}}`, `{"offer":{"meta":}}`, `{"offer":{"origin":3}}`, `{"result":{"degraded":"x"}}`, `{"error":1}`, `{"later":{]}`, `{} {}`,
	} {
		var h Header
		if json.Unmarshal([]byte(text), &h) == nil {
			t.Fatalf("encoding/json reads %s", text)
		}
		if err := decodeHeader([]byte(text), new(Header)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
	null := strings.NewReplacer("1", "null").Replace(`{"kind":1,"from":1,"time":1,"seq":1,"ended":1,"running":1,"body":1,"offer":1,"later":1}`)
	var h Header
	if err := decodeHeader([]byte(null), &h); err != nil || h.Offer != nil || h.Body != nil {
		t.Errorf("%s is read as %+v, %v", null, h, err)
	}
}

// A header does not keep the memory of its frame.
func TestHeadersDoNotKeepTheFrame(t *testing.T) {
	text := []byte(`{"offer":{"meta":{"a":1},"capabilities":{"b":2},"origin":{"rules":{"c":3}}}}`)
	var h Header
	if err := decodeHeader(text, &h); err != nil {
		t.Fatal(err)
	}
	clear(text)
	if o := h.Offer; string(o.Meta)+string(o.Capabilities)+string(o.Origin.Rules) != `{"a":1}{"b":2}{"c":3}` {
		t.Errorf("the offer is %+v", o)
	}
}

// A header that is not JSON is not written, and one line stays one line.
func TestHeadersNeedJSON(t *testing.T) {
	h := Header{Kind: Offer, Offer: &CallOffer{Meta: json.RawMessage(`{`)}}
	if text, err := appendHeader(nil, &h); err == nil {
		t.Errorf("written as %s", text)
	}
	h.Offer.Meta = json.RawMessage("{\n\"a\":\r\n1}")
	if text, err := appendHeader(nil, &h); err != nil || !strings.Contains(string(text), `"meta":{"a":1}`) {
		t.Errorf("written as %s, %v", text, err)
	}
}
