package directory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/linktest"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
)

func reference(size int) Reference {
	return Reference{Sum: strings.Repeat("ab", 32), Size: size, Piece: maxPiece}
}

func TestBound(t *testing.T) {
	good := Server{Name: "gpu", Definitions: reference(100), Tools: 3}
	with := func(edit func(*Server)) Server {
		s := good
		s.Name = "other"
		edit(&s)
		return s
	}
	for name, bad := range map[string]Server{
		"no name":            with(func(s *Server) { s.Name = "" }),
		"a long name":        with(func(s *Server) { s.Name = strings.Repeat("x", 257) }),
		"a tool's ID":        with(func(s *Server) { s.Name = "github:x" }),
		"another node":       with(func(s *Server) { s.Name = "gpu@box" }),
		"an escape":          with(func(s *Server) { s.Name = "gpu\x1b[2J" }),
		"another escape":     with(func(s *Server) { s.Name = "gpu\u009b2J" }),
		"right to left":      with(func(s *Server) { s.Name = "gpu\u202ekcolb" }),
		"invalid UTF-8":      with(func(s *Server) { s.Name = "gpu\xff" }),
		"all tools":          with(func(s *Server) { s.Tools = math.MaxInt }),
		"all bytes":          with(func(s *Server) { s.Definitions.Size = math.MaxInt }),
		"a long service":     with(func(s *Server) { s.Service = strings.Repeat("x", 257) }),
		"a name twice":       good,
		"no hash":            with(func(s *Server) { s.Definitions.Sum = "" }),
		"a wrong hash":       with(func(s *Server) { s.Definitions.Sum = "../../x" }),
		"no size":            with(func(s *Server) { s.Definitions.Size = 0 }),
		"a negative size":    with(func(s *Server) { s.Definitions.Size = -1 }),
		"too large":          with(func(s *Server) { s.Definitions.Size = MaxDefinitions + 1 }),
		"too large together": with(func(s *Server) { s.Definitions.Size = MaxDefinitions - 99 }),
		"tiny pieces":        with(func(s *Server) { s.Definitions.Piece = 1 }),
		"no pieces":          with(func(s *Server) { s.Definitions.Piece = 0 }),
		"huge pieces":        with(func(s *Server) { s.Definitions.Piece = maxPiece + 1 }),
		"negative tools":     with(func(s *Server) { s.Tools = -1 }),
		"too many tools":     with(func(s *Server) { s.Tools = MaxTools - 2 }),
	} {
		last := with(func(s *Server) { s.Name = "last" })
		a := Announcement{Servers: []Server{good, bad, last}}
		if n := a.bound(); n != 1 || len(a.Servers) != 2 || a.Servers[1].Name != "last" {
			t.Errorf("%s: left out %d, kept %+v", name, n, a.Servers)
		}
	}
	many := Announcement{}
	for i := range MaxServers + 7 {
		many.Servers = append(many.Servers, with(func(s *Server) { s.Name = fmt.Sprint(i) }))
	}
	if n := many.bound(); n != 7 || len(many.Servers) != MaxServers {
		t.Error(n, len(many.Servers))
	}
	terms := boundTerms(clusternode.Terms{Timeout: -1, MaxConcurrent: -1, Validate: "x", Retry: "x"})
	if terms != (clusternode.Terms{Validate: "on", Retry: "hints"}) {
		t.Errorf("%+v", terms)
	}
}

// Servers of a node beyond the bounds are left out, with the reason; the rest is shared.
func TestAnnounceTooMuch(t *testing.T) {
	d := New(Options{JetStream: noJetStream})
	huge := &Definitions{}
	for range MaxTools + 1 {
		huge.Tools = append(huge.Tools, json.RawMessage(`{}`))
	}
	revision, leftOut := d.Announce([]Offering{offering("b", 2), {Server{Name: "a"}, huge}, offering("c", 2)})
	if own := d.Own(); revision == "" || len(own) != 2 || own[0].Name != "b" || own[1].Name != "c" || len(leftOut) != 1 || !strings.Contains(leftOut[0], "a: this node shares too much") {
		t.Errorf("%+v, %q", own, leftOut)
	}
}

// Definitions with many tiny items are refused before they take much memory.
func TestManyItems(t *testing.T) {
	text := []byte(`{"info":{},"prompts":[` + strings.Repeat(`0,`, MaxTools) + `0]}`)
	sum := sha256.Sum256(text)
	s := stored{Reference{hex.EncodeToString(sum[:]), len(text), maxPiece}, [][]byte{compress(text)}}
	if d, err := s.load(); err == nil || !strings.Contains(err.Error(), "more than 100000 items") {
		t.Errorf("%v, %v", d != nil, err)
	}
	good, _ := store(&Definitions{Tools: Items{json.RawMessage(`{"name":"a"}`), json.RawMessage(`{}`)}}, maxPiece)
	if d, err := good.load(); err != nil || len(d.Tools) != 2 || string(d.Tools[0]) != `{"name":"a"}` {
		t.Errorf("%+v, %v", d, err)
	}
}

// A reader of this minor version reads a later one: unknown members are ignored.
func TestLaterMinor(t *testing.T) {
	key := linktest.NewKey()
	text, _ := json.Marshal(map[string]any{
		"cluster": "metarouter", "key": key.Public, "node": "box", "time": time.Now().UnixMilli(), "revision": "1", "new": []int{1},
		"servers": []any{map[string]any{"name": "gpu", "definitions": reference(10), "tools": 1, "new": "x"}},
	})
	encode := func(version byte) []byte {
		data := append([]byte{mark, version}, compress(text)...)
		signature, _ := key.Sign(data)
		return append(data, signature...)
	}
	if a, n, err := decode(key.Public, encode(major<<4|15)); err != nil || n != 0 || len(a.Servers) != 1 {
		t.Errorf("%+v, %d, %v", a, n, err)
	}
	if _, _, err := decode(key.Public, encode((major+1)<<4)); err == nil || !strings.Contains(err.Error(), "same major version") {
		t.Error(err)
	}
}

func FuzzAnnouncement(f *testing.F) {
	key := linktest.NewKey()
	a := Announcement{Cluster: "metarouter", Key: key.Public, Node: "box", Servers: []Server{{Name: "gpu", Definitions: reference(10)}}}
	text, _ := json.Marshal(a)
	f.Add(text)
	f.Add([]byte(`{"servers":[{"definitions":{"size":1e30}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		// Signed by its node: the code after the signature's check is tested.
		data := append([]byte{mark, major << 4}, compress(text)...)
		signature, _ := key.Sign(data)
		references(append(data, signature...))
		references(text)
		a, _, err := decode(key.Public, append(data, signature...))
		if err != nil {
			return
		}
		size, tools := 0, 0
		for _, s := range a.Servers {
			if s.Definitions.count() < 1 || s.Definitions.count() > MaxDefinitions/minPiece+1 {
				t.Errorf("%+v", s)
			}
			size, tools = size+s.Definitions.Size, tools+s.Tools
		}
		if len(a.Servers) > MaxServers || size > MaxDefinitions || tools > MaxTools {
			t.Errorf("%d servers, %d bytes, %d tools", len(a.Servers), size, tools)
		}
	})
}
