package frame_test

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/linktest"
)

// unsigned returns a frame without its signature.
func unsigned(t testing.TB, from *linktest.Key, h frame.Header, payload []byte) []byte {
	h.From = frame.Address{Key: from.Public, Instance: "a"}
	data, err := frame.Append(nil, h, payload, nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// bundle returns a bundle of n frames, each with a payload.
func bundle(t testing.TB, key *linktest.Key, n int) []byte {
	var b frame.Bundle
	for i := range n {
		payload := fmt.Appendf(nil, "payload %d", i)
		h := frame.Header{Kind: frame.Result, Call: fmt.Sprint(i), Body: &frame.Body{ID: "b", Size: int64(len(payload))}}
		if !b.Add(unsigned(t, key, h, payload), len(payload), frame.MaxFrame) {
			t.Fatalf("no room for frame %d", i)
		}
	}
	data, err := b.Encode(key)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestBundle(t *testing.T) {
	key := linktest.NewKey()
	for _, n := range []int{1, 2, 64} {
		all, err := frame.DecodeAll(bundle(t, key, n))
		if err != nil || len(all) != n {
			t.Fatalf("got %d frames, %v", len(all), err)
		}
		for i, f := range all {
			if err := f.Verify(); err != nil || f.Header.Call != fmt.Sprint(i) || string(f.Payload) != fmt.Sprintf("payload %d", i) {
				t.Errorf("frame %d is %+v with %q, %v", i, f.Header, f.Payload, err)
			}
		}
	}
	one, err := frame.Sign(unsigned(t, key, frame.Header{Kind: frame.Ping}, nil), 0, key)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := frame.DecodeAll(one); err != nil || len(all) != 1 || all[0].Verify() != nil {
		t.Errorf("a frame alone is %v, %v", all, err)
	}
}

// No byte of a bundle outside its payloads can be changed, no frame be left out, moved or added.
func TestBundleForged(t *testing.T) {
	key, other := linktest.NewKey(), linktest.NewKey()
	verified := func(data []byte) int {
		all, err := frame.DecodeAll(data)
		if err != nil {
			return 0
		}
		for _, f := range all {
			if f.Verify() != nil {
				return 0
			}
		}
		return len(all)
	}
	data := bundle(t, key, 3)
	original, err := frame.DecodeAll(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		if verified(changed) > 0 {
			all, _ := frame.DecodeAll(changed)
			for j, f := range all {
				if len(all) != 3 || !reflect.DeepEqual(f.Header, original[j].Header) || len(f.Payload) != len(original[j].Payload) {
					t.Errorf("byte %d was changed", i)
				}
			}
		}
	}
	size := (len(data) - 1 - 64) / 3
	first, rest := data[1:1+size], data[1+size:]
	for name, changed := range map[string][]byte{
		"left out": append([]byte{data[0]}, rest...), "repeated": append(append(append([]byte{data[0]}, first...), first...), rest...),
		"moved": append(append(append([]byte{data[0]}, rest[:2*size]...), first...), rest[2*size:]...), "empty": append([]byte{data[0]}, data[len(data)-64:]...),
	} {
		if verified(changed) > 0 {
			t.Errorf("a frame was %s", name)
		}
	}
	var b frame.Bundle
	b.Add(unsigned(t, key, frame.Header{Kind: frame.Ping}, nil), 0, frame.MaxFrame)
	b.Add(unsigned(t, other, frame.Header{Kind: frame.Ping}, nil), 0, frame.MaxFrame)
	mixed, err := b.Encode(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := frame.DecodeAll(mixed); err == nil {
		t.Error("a bundle has frames of two senders")
	}
	var c frame.Bundle
	c.Add(unsigned(t, other, frame.Header{Kind: frame.Ping}, nil), 0, frame.MaxFrame)
	if forged, _ := c.Encode(key); verified(forged) > 0 {
		t.Error("one node has signed for another")
	}
}

// A bundle is bounded in frames and bytes.
func TestBundleBounds(t *testing.T) {
	key := linktest.NewKey()
	var b frame.Bundle
	one := unsigned(t, key, frame.Header{Kind: frame.Ping}, nil)
	n := 0
	for b.Add(one, 0, frame.MaxFrame) {
		n++
	}
	if n != 64 {
		t.Errorf("it has %d frames", n)
	}
	var c frame.Bundle
	if most := 10 * len(one); c.Add(one, 0, most) {
		for c.Add(one, 0, most) {
		}
		if data, err := c.Encode(key); err != nil || len(data) > most {
			t.Errorf("it has %d bytes, %v", len(data), err)
		}
	}
}

// Whatever comes, no frame counts as signed that its sender has not signed.
func FuzzDecodeAll(f *testing.F) {
	key := linktest.NewKey()
	f.Add(bundle(f, key, 1))
	f.Add(bundle(f, key, 3))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := frame.DecodeAll(data)
		if err != nil {
			return
		}
		if len(all) == 0 || len(all) > 64 {
			t.Fatalf("got %d frames", len(all))
		}
		for _, f := range all {
			f.Verify()
		}
	})
}
