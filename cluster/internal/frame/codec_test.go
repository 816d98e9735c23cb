package frame

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
)

// key signs for a node in tests.
type key struct{ ed25519.PrivateKey }

func (k key) Sign(data []byte) ([]byte, error) { return ed25519.Sign(k.PrivateKey, data), nil }

func (k key) public() string {
	text, err := nkeys.Encode(nkeys.PrefixByteUser, k.Public().(ed25519.PublicKey))
	if err != nil {
		panic(err)
	}
	return string(text)
}

func newKey(seed byte) key {
	return key{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))}
}

var (
	us   = newKey(1)
	them = newKey(2)
)

func offer() Header {
	return Header{
		Kind: Offer, From: Address{us.public(), "a1"}, To: Address{them.public(), "B2"}, Time: 1_700_000_000_000, Call: "c1", Server: "github",
		Body:  &Body{ID: "b1", Size: 5, Sum: strings.Repeat("ab", 32)},
		Offer: &CallOffer{Method: "tools/call", Tool: "create_issue", Timeout: 60_000, Meta: json.RawMessage(`{"progressToken":1}`), Client: "claude"},
	}
}

func encoded(t testing.TB, h Header, payload string) []byte {
	t.Helper()
	data, err := Encode(h, []byte(payload), us)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRoundTrip(t *testing.T) {
	f, err := Decode(encoded(t, offer(), "hello"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Verify(); err != nil {
		t.Error(err)
	}
	got, _ := json.Marshal(f.Header)
	want, _ := json.Marshal(offer())
	if string(f.Payload) != "hello" || !bytes.Equal(got, want) {
		t.Errorf("the frame is %s %q, want %s", got, f.Payload, want)
	}
}

// A change of any byte that is signed, or of the signature, is seen.
func TestVerifySeesEveryChange(t *testing.T) {
	data := encoded(t, offer(), "hello")
	for i := range data {
		if i >= len(data)-signatureSize-5 && i < len(data)-signatureSize {
			continue // the payload, which the sum in the header authenticates
		}
		changed := bytes.Clone(data)
		changed[i] ^= 1
		if f, err := Decode(changed); err == nil && f.Verify() == nil {
			t.Errorf("a change of byte %d was not seen", i)
		}
	}
}

func TestVerifyWantsTheKeyOfTheSender(t *testing.T) {
	data, err := Encode(offer(), nil, them)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Verify(); err == nil || !strings.Contains(err.Error(), "signature") {
		t.Errorf("the error is %v", err)
	}
}

// Any signature is valid for some messages with a key of small order.
func TestVerifyRefusesWeakKeys(t *testing.T) {
	weak, err := nkeys.Encode(nkeys.PrefixByteUser, append([]byte{1}, make([]byte, 31)...))
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	signature[0] = 1
	if Verify(string(weak), []byte("x"), signature) == nil {
		t.Error("a signature of a key of small order is accepted")
	}
}

func TestPartsAreNotSigned(t *testing.T) {
	h := Header{Kind: Part, From: Address{us.public(), "a1"}, To: Address{them.public(), "B2"}, Part: &Range{Body: "b1", Offset: 9}}
	f, err := Decode(encoded(t, h, "bytes"))
	if err != nil || string(f.Payload) != "bytes" {
		t.Fatal(f, err)
	}
	if f.Verify() == nil {
		t.Error("the signature of a part is said to be valid")
	}
}

func TestEncodeRefuses(t *testing.T) {
	long := offer()
	long.URI = strings.Repeat("x", MaxHeader)
	if _, err := Encode(long, nil, us); !errors.Is(err, ErrTooLarge) {
		t.Errorf("long header: %v", err)
	}
	if _, err := Encode(offer(), make([]byte, MaxFrame), us); !errors.Is(err, ErrTooLarge) {
		t.Errorf("long payload: %v", err)
	}
	if _, err := Encode(Header{Kind: Ping}, []byte("x"), us); err == nil {
		t.Error("a payload that nothing authenticates is written")
	}
}

// Nodes of a later minor version may send members, kinds and versions that this one does not know.
func TestDecodeIgnoresWhatIsNewer(t *testing.T) {
	data := withHeader(t, Major<<4|7, `{"kind":"later","later":{"x":[1]},"from":`+address(us)+`,"body":{"id":"1","later":true}}`, make([]byte, 64))
	if f, err := Decode(data); err != nil || f.Header.Kind != "later" || f.Header.Body.ID != "1" {
		t.Error(f, err)
	}
}

func address(k key) string { return `{"Key":"` + k.public() + `","Instance":"x"}` }

func withHeader(t testing.TB, version byte, header string, rest []byte) []byte {
	t.Helper()
	data := binary.BigEndian.AppendUint32([]byte{version}, uint32(len(header)))
	return append(append(data, header...), rest...)
}

func TestDecodeRefuses(t *testing.T) {
	from, signature := `"from":`+address(us), make([]byte, 64)
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":       {nil, "only 0 bytes"},
		"short":         {[]byte{version, 0}, "only 2 bytes"},
		"another major": {[]byte{2<<4 | 3, 0, 0, 0, 0}, "version 2.3"},
		"JSON":          {[]byte(`{"kind":"ping"}`), "version 7.11"},
		"cut":           {encoded(t, offer(), "")[:100], "has a header of"},
		"huge":          {make([]byte, MaxFrame+1), "too large"},
		"long header":   {append([]byte{version, 0xff, 0xff, 0xff, 0xff}, signature...), "header of 4294967295 bytes"},
		"no JSON":       {withHeader(t, version, `{`, signature), "decode the header"},
		"not signed":    {withHeader(t, version, `{"kind":"ping",`+from+`}`, signature[1:]), "not signed"},
		"payload":       {withHeader(t, version, `{"kind":"ping",`+from+`}`, append(signature, 1)), "no body"},
		"no kind":       {withHeader(t, version, `{`+from+`}`, signature), "no kind"},
		"no sender":     {withHeader(t, version, `{"kind":"ping"}`, signature), "sender"},
		"bad sender":    {withHeader(t, version, `{"kind":"ping","from":{"Key":"`+us.public()+`","Instance":"a.>"}}`, signature), "sender"},
		"bad key":       {withHeader(t, version, `{"kind":"ping","from":{"Key":"`+strings.Repeat("U", 55)+`*","Instance":"a"}}`, signature), "sender"},
		"bad receiver":  {withHeader(t, version, `{"kind":"ping",`+from+`,"to":{"Key":"x"}}`, signature), "receiver"},
	} {
		_, err := Decode(test.data)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, want %q", name, err, test.want)
		}
		if other := new(VersionError); errors.As(err, &other) != strings.HasPrefix(test.want, "version") {
			t.Errorf("%s: the error is of type %T", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encoded(f, offer(), "hello"))
	f.Add(encoded(f, Header{Kind: Part, From: offer().From, Part: &Range{Body: "x"}}, "bytes"))
	f.Add(encoded(f, Header{Kind: Beat, From: offer().From, Beat: &Beating{Load: map[string]ServerState{"a": {State: "ready"}}}}, ""))
	f.Add(withHeader(f, version, `{"kind":"ping"}`, make([]byte, 64)))
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := Decode(data)
		if err != nil {
			return
		}
		if len(frame.signed)+len(frame.Payload)+len(frame.signature) != len(data) || !frame.Header.From.valid() {
			t.Errorf("%d bytes of header, %d of payload, %d of signature", len(frame.signed), len(frame.Payload), len(frame.signature))
		}
		_ = frame.Verify()
		again, err := appendHeader(nil, &frame.Header)
		if err != nil {
			t.Fatal(err)
		}
		var h Header
		if err := decodeHeader(again, &h); err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		if last, err := appendHeader(nil, &h); err != nil || !bytes.Equal(last, again) {
			t.Errorf("%s is read as %s, %v", again, last, err)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	payload := make([]byte, 100)
	for b.Loop() {
		if _, err := Encode(offer(), payload, us); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	data := encoded(b, offer(), "hello")
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeVerify(b *testing.B) {
	data := encoded(b, offer(), "hello")
	for b.Loop() {
		f, err := Decode(data)
		if err == nil {
			err = f.Verify()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
