package catalog

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func stored(t *testing.T, server string) registry.Offer {
	no, yes := false, true
	odd := tool(server, "odd", "Über <b> & \u2028", "web")
	odd.Original, odd.Title, odd.Repairs = "ODD", "Odd", []string{"renamed"}
	odd.Hints = registry.Hints{ReadOnly: &yes, Destructive: &no}
	odd.InputSchema = json.RawMessage("{ \"type\" : \"object\",\n\t\"default\": 1.00e+2, \"x\":\"<\\u003c/&\\/\xff\" }")
	odd.Definition = json.RawMessage(" {\"name\":\"odd\", \"big\": 123456789012345678901234567890}\r\n")
	o := everything(server)
	o.Tools = []registry.NormalizedTool{odd, tool(server, "plain", "")}
	o.Prompts[0].Definition = json.RawMessage(" {\"name\" :\"p\", \"n\": 1.00e+2}\r\n")
	o.Resources[0].Repairs = []string{"named"}
	o.Capabilities = json.RawMessage("{ \"tools\" : {}, \"extensions\":{ \"x\\/y\":1.0 }}")
	o.Extensions = json.RawMessage("{ \"x\\/y\":1.0 }")
	o.LastSeen = map[string]json.RawMessage{"odd": json.RawMessage(" {\"name\":\"odd\", \"big\": 1.00}\r\n"), "not kept": nil}
	o.Dropped = []registry.Dropped{
		{Kind: registry.KindTool, Name: "hidden", Reason: "filtered", Filter: "deny", Pattern: "h*"},
		{Kind: registry.KindPrompt, Name: "#3", Reason: "it has no name"},
	}
	return o
}

func storeFile(t *testing.T, s store) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, error %v; want one file", files, err)
	}
	return files[0]
}

func TestStoreKeepsEveryByte(t *testing.T) {
	s := newStore(filepath.Join(t.TempDir(), "new"), zap.NewNop())
	if _, ok := s.load("k1", "a b/ü"); ok {
		t.Error("loaded what was never saved")
	}
	want := stored(t, "a b/ü")
	expect.OK(t, s.save("k1", "a b/ü", want))
	got, ok := s.load("k1", "a b/ü")
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("loaded %v\n%+v\nwant\n%+v", ok, got, want)
	}
	if _, ok := s.load("k2", "a b/ü"); ok {
		t.Error("loaded under another key")
	}
	if _, ok := s.load("k1", "a_b/ü"); ok {
		t.Error("loaded another server's offer")
	}
	file := storeFile(t, s)
	expect.Equal(t, filepath.Base(file), "a_b-k1.tools", "the file is named")
	if runtime.GOOS != "windows" {
		for path, want := range map[string]os.FileMode{file: 0o600, s.dir: 0o700} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
		}
	}
}

// An offer that would take too much memory is not kept, and what was kept before stays.
func TestStoreTooLarge(t *testing.T) {
	s := newStore(t.TempDir(), zap.NewNop())
	o := stored(t, "a")
	expect.OK(t, s.save("k", "a", o))
	large := o
	large.Tools = make([]registry.NormalizedTool, 65)
	for i := range large.Tools {
		large.Tools[i].Definition = make(json.RawMessage, 1<<20) // all zero: it is not looked at
	}
	expect.Error(t, s.save("k", "a", large), "64 MiB")
	if got, ok := s.load("k", "a"); !ok || !reflect.DeepEqual(got, o) {
		t.Error("what was kept before is gone")
	}
}

func TestStoreWithoutDirectory(t *testing.T) {
	s := newStore("", zap.NewNop())
	expect.OK(t, s.save("k", "s", stored(t, "s")))
	if _, ok := s.load("k", "s"); ok {
		t.Error("loaded something")
	}
	expect.OK(t, s.prune(0))
}

func TestStoreStaysInItsDirectory(t *testing.T) {
	s := newStore(t.TempDir(), zap.NewNop())
	for _, server := range []string{"../../up", "/", "..", "", "C:\\x", strings.Repeat("long", 100), "nul\x00"} {
		expect.OK(t, s.save("../k", server, registry.Offer{}), "%q", server)
		if rel, err := filepath.Rel(s.dir, s.path("../k", server)); err != nil || rel != filepath.Base(rel) {
			t.Errorf("%q is kept in %q", server, rel)
		}
		if _, ok := s.load("../k", server); !ok {
			t.Errorf("%q was not found again", server)
		}
	}
}

func TestStoreDropsDamage(t *testing.T) {
	s := newStore(t.TempDir(), zap.NewNop())
	expect.OK(t, s.save("k", "s", stored(t, "s")))
	path := storeFile(t, s)
	good, err := os.ReadFile(path)
	expect.OK(t, err)
	damage := map[string][]byte{
		"empty":         {},
		"other version": []byte(strings.Replace(string(good), "catalog 5", "catalog 1", 1)),
		"header only":   good[:len(magic)+65],
	}
	for i := 0; i < len(good); i += 7 {
		damage[fmt.Sprintf("cut at %d", i)] = good[:i]
		flipped := append([]byte(nil), good...)
		flipped[i] ^= 0x20
		damage[fmt.Sprintf("byte %d flipped", i)] = flipped
	}
	for name, bad := range damage {
		expect.OK(t, os.WriteFile(path, bad, 0o600))
		if o, ok := s.load("k", "s"); ok {
			t.Errorf("%s: loaded %v", name, o)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: the file is still there: %v", name, err)
		}
	}
}

func TestStoreFailsWithoutHarm(t *testing.T) {
	root := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o600))
	under := newStore(filepath.Join(root, "file"), zap.NewNop())
	if err := under.save("k", "s", stored(t, "s")); err == nil {
		t.Error("saved below a file")
	}
	if _, ok := under.load("k", "s"); ok {
		t.Error("loaded from below a file")
	}

	s := newStore(root, zap.NewNop())
	blocked := s.path("k", "s")
	expect.OK(t, os.MkdirAll(filepath.Join(blocked, "full"), 0o700))
	if err := s.save("k", "s", stored(t, "s")); err == nil {
		t.Error("saved over a directory")
	}
	expect.Equal(t, storeFile(t, s), blocked, "a failed save left")

	if os.Getuid() <= 0 {
		t.Skip("the rest needs a user whom permissions bind")
	}
	s = newStore(t.TempDir(), zap.NewNop())
	want := stored(t, "s")
	expect.OK(t, s.save("k", "s", want))
	expect.OK(t, os.Chmod(s.dir, 0o500))
	defer os.Chmod(s.dir, 0o700)
	if err := s.save("k", "s", registry.Offer{}); err == nil {
		t.Error("saved in a read-only directory")
	}
	if got, ok := s.load("k", "s"); !ok || !reflect.DeepEqual(got, want) {
		t.Error("the failed save harmed what was there")
	}
}

func TestStoreIsSharedByManyProcesses(t *testing.T) {
	dir := t.TempDir()
	expect.OK(t, newStore(dir, zap.NewNop()).save("k", "s", registry.Offer{Tools: []registry.NormalizedTool{tool("s", "t0", "")}}))
	var all sync.WaitGroup
	for w := range 4 {
		s := newStore(dir, zap.NewNop())
		all.Go(func() {
			for i := range 50 {
				listing := make([]registry.NormalizedTool, 1+(w+i)%20)
				for j := range listing {
					listing[j] = tool("s", fmt.Sprintf("t%d", j), strings.Repeat("x", 1000))
				}
				if err := s.save("k", "s", registry.Offer{Tools: listing}); err != nil && runtime.GOOS != "windows" {
					t.Error(err) // Windows refuses while a reader has the file open
				}
			}
		})
		all.Go(func() {
			for range 50 {
				if o, ok := s.load("k", "s"); !ok || len(o.Tools) == 0 {
					t.Error("found nothing, or half of it")
				}
			}
		})
	}
	all.Wait()
	storeFile(t, newStore(dir, zap.NewNop()))
}

func TestStorePrune(t *testing.T) {
	s := newStore(t.TempDir(), zap.NewNop())
	expect.OK(t, s.prune(0), "before the first save")
	old := time.Now().Add(-48 * time.Hour)
	for _, key := range []string{"unused", "used", "fresh"} {
		expect.OK(t, s.save(key, "s", stored(t, "s")))
		if key != "fresh" {
			expect.OK(t, os.Chtimes(s.path(key, "s"), old, old))
		}
	}
	s.load("used", "s")
	expect.OK(t, s.prune(24*time.Hour))
	for key, want := range map[string]bool{"unused": false, "used": true, "fresh": true} {
		if _, ok := s.load(key, "s"); ok != want {
			t.Errorf("%s is there: %v", key, ok)
		}
	}
}

func TestStoredIndex(t *testing.T) {
	store := newStore(t.TempDir(), zap.NewNop())
	if got := store.loadIndex("p"); got.Claims != nil || got.Keys != nil {
		t.Errorf("loaded %v", got)
	}
	kept := index{map[string]string{"owner": "key"}, registry.Claims{"x": {Server: "owner", Since: 1}, "y": {Server: "gone", Since: 2}}}
	expect.OK(t, store.saveIndex("p", kept))
	if stored := store.loadIndex("p"); !reflect.DeepEqual(stored, kept) || store.loadIndex("q").Keys != nil {
		t.Errorf("loaded %v", stored)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tool(server, name, description string, tags ...string) registry.NormalizedTool {
	return registry.NormalizedTool{
		ID: registry.ID(server, name), Server: server, Name: name, Description: description, Capabilities: tags,
		InputSchema: json.RawMessage(`{"type":"object"}`),
	}
}

// everything returns an offer that has one of each.
func everything(server string) registry.Offer {
	return registry.Offer{
		Tools:     []registry.NormalizedTool{tool(server, "t", "A tool")},
		Prompts:   []registry.Prompt{{ID: registry.ID(server, "p"), Server: server, Name: "p"}},
		Resources: []registry.Resource{{ID: registry.ID(server, "a://r"), Server: server, URI: "a://r", Name: "r", Definition: []byte(`{"uri":"a://r"}`)}},
		Templates: []registry.Template{{ID: registry.ID(server, "a://{x}"), Server: server, URI: "a://{x}", Name: "x", Definition: []byte(`{"uriTemplate":"a://{x}"}`)}},
	}
}
