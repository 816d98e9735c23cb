package directory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func identity(t testing.TB) *clusternode.Identity {
	t.Helper()
	id, err := clusternode.OpenIdentity(filepath.Join(t.TempDir(), "node.nk"))
	expect.OK(t, err)
	return id
}

func reference(size int) Reference {
	return Reference{Sum: strings.Repeat("ab", 32), Size: size, Chunks: 1}
}

func announcement(key string) Announcement {
	return Announcement{
		Protocol: Protocol, Cluster: "office", Key: key, Router: "R", Instance: "I", Node: "box", Version: "1", Revision: 3,
		Servers: []Server{{Name: "gpu", Tools: 2, Definitions: reference(10), Terms: clusternode.Terms{Validate: "on", Retry: "hints", Asks: true}}},
	}
}

func TestDecode(t *testing.T) {
	id, other := identity(t), identity(t)
	a := announcement(id.Key())
	value, err := a.encode(id.Sign)
	expect.OK(t, err)
	got, err := Decode("office", id.Key(), "R", value, true)
	if err != nil || got.Revision != 3 || len(got.Servers) != 1 || got.Servers[0] != a.Servers[0] {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Decode("office", id.Key(), "R", value, false); err != nil || got.Node != "box" || len(got.Servers) != 0 {
		t.Errorf("of a node that is not trusted: %+v, %v", got, err)
	}
	foreign, _ := a.encode(other.Sign)
	with := func(change func(a *Announcement)) []byte {
		b := announcement(id.Key())
		change(&b)
		value, _ := b.encode(id.Sign)
		return value
	}
	for name, bad := range map[string][]byte{
		"empty":                    nil,
		"no signature":             value[bytes.IndexByte(value, '\n'):],
		"forged":                   foreign,
		"changed":                  bytes.Replace(value, []byte(`"gpu"`), []byte(`"cpu"`), 1),
		"cut":                      value[:len(value)-1],
		"too large":                append(bytes.Clone(value), bytes.Repeat([]byte(" "), maxAnnouncement)...),
		"of another protocol":      with(func(a *Announcement) { a.Protocol = 3 }),
		"of another cluster":       with(func(a *Announcement) { a.Cluster = "home" }),
		"of another key":           with(func(a *Announcement) { a.Key = other.Key() }),
		"of another router":        with(func(a *Announcement) { a.Router = "S" }),
		"with a bad name":          with(func(a *Announcement) { a.Node = "Box!" }),
		"with a subject for pings": with(func(a *Announcement) { a.Instance = "I.>" }),
		"that no ping reaches":     with(func(a *Announcement) { a.Instance = "" }),
	} {
		if got, err := Decode("office", id.Key(), "R", bad, true); err == nil {
			t.Errorf("an announcement %s is read: %+v", name, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	id := identity(f)
	a := announcement(id.Key())
	value, _ := a.encode(id.Sign)
	f.Add(value)
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := Decode("office", id.Key(), "R", b, false); err == nil && (!IsNodeName(a.Node) || a.Key != id.Key() || len(a.Servers) > 0) {
			t.Errorf("%+v", a)
		}
		if a, err := Decode("office", id.Key(), "R", b, true); err == nil && !bytes.Contains(value, b) && a.Revision != 3 {
			t.Errorf("%+v", a)
		}
	})
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
		"no name":         with(func(s *Server) { s.Name = "" }),
		"a long name":     with(func(s *Server) { s.Name = strings.Repeat("x", 257) }),
		"a tool's ID":     with(func(s *Server) { s.Name = "github:x" }),
		"another node":    with(func(s *Server) { s.Name = "gpu@box" }),
		"an escape":       with(func(s *Server) { s.Name = "gpu\x1b[2J" }),
		"another escape":  with(func(s *Server) { s.Name = "gpu\u009b2J" }),
		"right to left":   with(func(s *Server) { s.Name = "gpu\u202ekcolb" }),
		"invalid UTF-8":   with(func(s *Server) { s.Name = "gpu\xff" }),
		"all tools":       with(func(s *Server) { s.Tools = math.MaxInt }),
		"all bytes":       with(func(s *Server) { s.Definitions.Size = math.MaxInt }),
		"a long service":  with(func(s *Server) { s.Service = strings.Repeat("x", 257) }),
		"a name twice":    good,
		"no hash":         with(func(s *Server) { s.Definitions.Sum = "" }),
		"a wrong hash":    with(func(s *Server) { s.Definitions.Sum = "../../x" }),
		"no size":         with(func(s *Server) { s.Definitions.Size = 0 }),
		"a negative size": with(func(s *Server) { s.Definitions.Size = -1 }),
		"too large":       with(func(s *Server) { s.Definitions.Size = MaxDefinitions + 1 }),
		"no chunks":       with(func(s *Server) { s.Definitions.Chunks = 0 }),
		"many chunks":     with(func(s *Server) { s.Definitions.Chunks = maxChunks + 1 }),
		"negative tools":  with(func(s *Server) { s.Tools = -1 }),
		"too many tools":  with(func(s *Server) { s.Tools = MaxTools - 2 }),
	} {
		last := with(func(s *Server) { s.Name = "last" })
		kept, leftOut := bound([]Server{good, bad, last})
		if len(leftOut) != 1 || len(kept) != 2 || kept[1].Name != "last" {
			t.Errorf("%s: left out %q, kept %+v", name, leftOut, kept)
		}
	}
	var many []Server
	for i := range MaxServers + 7 {
		many = append(many, with(func(s *Server) { s.Name = fmt.Sprint(i) }))
	}
	if kept, leftOut := bound(many); len(leftOut) != 7 || len(kept) != MaxServers {
		t.Error(len(kept), len(leftOut))
	}
	for i := range many { // the longest names and services: fewer servers fit
		many[i].Name, many[i].Service = strings.Repeat("n", 100)+many[i].Name, strings.Repeat("s", maxService)
	}
	id := identity(t)
	a := announcement(id.Key())
	a.Servers, _ = bound(many)
	if value, err := a.encode(id.Sign); err != nil || len(value) > maxAnnouncement || len(a.Servers) < 300 {
		t.Error(len(value), err, len(a.Servers))
	}
	terms := boundTerms(clusternode.Terms{Timeout: -1, MaxConcurrent: -1, Validate: "x", Retry: "x"})
	expect.Equal(t, terms, clusternode.Terms{Validate: "on", Retry: "hints"})
}

func TestDefinitions(t *testing.T) {
	var tools []json.RawMessage
	for i := range 2000 {
		tools = append(tools, json.RawMessage(fmt.Sprintf(`{"name":"t%d","x":"%x"}`, i, i*i*7919)))
	}
	all, _ := json.Marshal(tools)
	p, err := pack(clusternode.Offer{Info: session.Info{Name: "gpu", PID: 7}, Tools: tools}, minChunk)
	if err != nil || p.Chunks < 2 || !p.valid() {
		t.Fatalf("%+v, %v", p.Reference, err)
	}
	again := packed{Reference: p.Reference}
	for i := range p.Chunks {
		if chunk := p.chunk(i); len(chunk) > minChunk {
			t.Errorf("chunk %d has %d bytes", i, len(chunk))
		} else {
			again.data = append(again.data, chunk...)
		}
	}
	d, err := again.unpack(2000)
	if err != nil || !bytes.Equal(d.Tools, all) || !d.Info.Remote || d.Info.PID != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := again.unpack(1999); err == nil {
		t.Error("a server has more tools than announced")
	}
	short := again
	short.Size--
	if _, err := short.unpack(2000); err == nil {
		t.Error("definitions are larger than announced, and read")
	}
	other := again
	other.Sum = strings.Repeat("0", 64)
	if _, err := other.unpack(2000); err == nil {
		t.Error("definitions with another hash are read")
	}
	for array, limit := range map[string]int{"{}": 9, "[1,2]": 1, "[1": 9, "null": 9} {
		if err := check(json.RawMessage(array), limit); err == nil {
			t.Errorf("%s passes as an array of at most %d items", array, limit)
		}
	}
}
