package tools

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func anyTool(string) bool { return true }

// A text is not shown any more when the tool that gave it is not allowed any more.
func TestKeptResultOfForbiddenTool(t *testing.T) {
	allowed := "a:b"
	r := &results{kept: NewKept(), exists: func(tool string) bool { return tool == allowed }}
	uri := r.keep("me", "a:b", "text")
	allowed = "a:c"
	if text, ok := r.find("me", uri); ok || text != "" {
		t.Errorf("%q is shown", text)
	}
}

// What is kept is its session's alone, and not for ever, nor without bound.
func TestKeptResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &results{kept: NewKept(), exists: anyTool}
		held := func() (bytes, texts int) {
			r.kept.mu.Lock() // which timers want too
			defer r.kept.mu.Unlock()
			return r.kept.size, len(r.kept.texts)
		}
		mine := r.keep("me", "a:b", "text")
		if text, ok := r.find("me", mine); !ok || text != "text" {
			t.Errorf("%q, %v", text, ok)
		}
		if _, ok := r.find("you", mine); ok {
			t.Error("another session reads it")
		}
		yours := r.keep("you", "a:b", "yours")
		big := strings.Repeat("x", maxKeptBytes-4-2*keptOverhead)
		last := r.keep("me", "a:b", big)
		if _, ok := r.find("me", mine); !ok {
			t.Error("what fits is dropped")
		}
		r.keep("me", "a:b", "more")
		if _, ok := r.find("me", mine); ok {
			t.Error("the oldest stays beyond the bound")
		}
		if _, ok := r.find("me", last); !ok {
			t.Error("more is dropped than need be")
		}
		if _, ok := r.find("you", yours); !ok {
			t.Error("another's is dropped")
		}
		expect.Equal(t, r.keep("me", "a:b", strings.Repeat("x", maxKeptBytes)), "", "more than the bound is kept")
		for i := range 20 {
			r.keep(i, "a:b", big)
		}
		if bytes, texts := held(); bytes > maxAllKeptBytes {
			t.Errorf("%d bytes are kept, in %d texts", bytes, texts)
		}
		r.kept.forget(func(k *keptText) bool { return k.owner.client == 19 })
		if _, texts := held(); texts != 9 { // 7 long ones, and those of you and me
			t.Errorf("%d texts stay", texts)
		}
		time.Sleep(maxKeptTime)
		synctest.Wait()
		if _, texts := held(); texts != 0 {
			t.Errorf("%d texts stay for ever", texts)
		}
	})
}

// Whatever bytes a text is of, its pieces go on until the end.
func TestPiecesOfInvalidText(t *testing.T) {
	text := strings.Repeat("é"+strings.Repeat("\x80", 100)+"a\xff\xf0\x9f", 1000)
	raw := append(append([]byte(`{"content":[{"type":"text","text":"`), text...), `"}]}`...)
	s := runner{Options: new(Options), results: &results{kept: NewKept(), exists: anyTool}}
	var cut struct {
		Meta struct{ Truncated *Truncation } `json:"_meta"`
	}
	if err := json.Unmarshal(s.limited(raw, 10, "a:b", "me"), &cut); err != nil || cut.Meta.Truncated == nil {
		t.Fatalf("%+v, %v", cut, err)
	}
	kept, _ := s.results.find("me", cut.Meta.Truncated.URI)
	offset := cut.Meta.Truncated.Shown
	for shown := offset; offset < len(kept); offset += shown {
		if shown = len(piece(kept, offset, 10)); shown == 0 {
			t.Fatalf("nothing is shown from byte %d of %d on", offset, len(kept))
		}
	}
	if !utf8.ValidString(kept) || cut.Meta.Truncated.Bytes != len(kept) {
		t.Errorf("%d bytes are kept, %+v", len(kept), cut.Meta.Truncated)
	}
}

// Many short texts count for what it takes to keep them.
func TestKeptShortResults(t *testing.T) {
	r := &results{kept: NewKept(), exists: anyTool}
	for range maxKeptBytes / keptOverhead * 5 / 4 {
		r.keep("me", "a:b", "short")
	}
	if n := len(r.kept.texts); n > maxKeptBytes/keptOverhead {
		t.Errorf("%d texts are kept", n)
	}
	(&Tools{results: r}).Clear()
	expect.Equal(t, len(r.kept.texts)+len(r.kept.owned)+r.kept.size, 0, "%d bytes stay", r.kept.size)
}

// The texts of many servers are within one bound, and a client that keeps less than others do keeps it. A server that has
// ended keeps nothing.
func TestKeptResultsOfManyServers(t *testing.T) {
	common := NewKept()
	var servers []*results
	for range 50 {
		servers = append(servers, &results{kept: common, exists: anyTool})
	}
	modest := servers[0].keep("me", "a:b", strings.Repeat("x", 3<<20))
	for client := range 200 {
		newest := servers[1].keep(client, "a:b", strings.Repeat("x", 4<<20-client))
		if _, ok := servers[1].find(client, newest); !ok {
			t.Fatalf("the text of client %d is dropped at once", client)
		}
	}
	if _, ok := servers[0].find("me", modest); !ok {
		t.Error("clients with more evicted it")
	}
	if _, ok := servers[1].find("me", modest); ok {
		t.Error("another server finds it")
	}
	big := strings.Repeat("x", 5<<20)
	for _, r := range servers[2:] {
		r.keep("me", "a:b", big)
	}
	if got := common.size; got > maxAllKeptBytes || got < maxAllKeptBytes-6<<20 {
		t.Errorf("%d bytes are kept", got)
	}
	for _, r := range servers {
		(&Tools{results: r}).Clear()
	}
	expect.Equal(t, common.size+len(common.texts)+len(common.owned), 0, "bytes stay")
}
