package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// opened returns a writer with the stored offers of the folder.
func opened(data string, c config.Config) *Writer {
	w := NewWriter(false, NewTagger(nil), registry.New(), data, zap.NewNop())
	w.Configure(c)
	return w
}

// one returns a configuration with one entry.
func one(entry config.Server) config.Config {
	return config.Config{Files: []string{"mcp.json"}, Servers: []config.Server{entry}}
}

// offering returns the offer of a server "s" with tools of these names.
func offering(tools ...string) (o registry.Offer) {
	for _, name := range tools {
		o.Tools = append(o.Tools, registry.NormalizedTool{ID: "s:" + name, Server: "s", Name: name, Definition: json.RawMessage(`{}`)})
	}
	return o
}

// storeOffer has the server of the entry list an offer, and stores that.
func (w *Writer) storeOffer(t testing.TB, entry config.Server, o registry.Offer) {
	t.Helper()
	expect.OK(t, w.adopt(t.Context(), entry, o, w.tagger))
	w.Saves.All()
}

// The list of a server that was removed meanwhile is not adopted.
func TestForgottenWhileListing(t *testing.T) {
	w := opened("", config.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	entry, offer := config.Server{Name: "s", Transport: config.Stdio, Command: "s"}, offering("a")
	if err := w.adopt(ctx, entry, offer, w.tagger); err != nil || len(w.registry.Snapshot().Tools()) != 1 {
		t.Fatal(err)
	}
	cancel()
	w.Forget("s")
	if err := w.adopt(ctx, entry, offer, w.tagger); err == nil || len(w.registry.Snapshot().Tools()) != 0 || w.Listed(entry) {
		t.Errorf("adopted after its end: %v", err)
	}
}

// A list is stored soon, and when the router ends.
func TestOffersAreSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := t.TempDir()
		entry := config.Server{Name: "s", Transport: config.Stdio, Command: "s", Lazy: true}
		stored := func() string {
			var ids []string
			for _, tool := range opened(data, one(entry)).registry.Snapshot().Tools() {
				ids = append(ids, tool.ID)
			}
			return strings.Join(ids, " ")
		}
		w := opened(data, one(entry))
		list := func(tool string) {
			t.Helper()
			expect.OK(t, w.adopt(t.Context(), entry, offering(tool), w.tagger))
		}
		ctx, end := context.WithCancel(t.Context())
		go w.Saves.Run(ctx)
		list("first")
		time.Sleep(2 * saveDelay)
		synctest.Wait()
		expect.Equal(t, stored(), "s:first", "stored soon after the list")
		end()
		synctest.Wait()
		list("second")
		w.Saves.Rest()
		expect.Equal(t, stored(), "s:second", "stored when the router has ended")
	})
}

// A tool has the tags of its server's entry, and those that its name implies.
func TestTags(t *testing.T) {
	o := NewTagger(nil).tag(config.Server{Capabilities: []string{"z", " Demo", "z"}}, offering("delete_x"))
	expect.List(t, o.Tools[0].Capabilities, []string{"delete", "demo", "z"}, "capabilities")
}

// A tool that an edit denies is gone at once, also if a session of the entry before it lists again. It is no new one when it is back.
func TestDeniedAtOnce(t *testing.T) {
	before := config.Server{Name: "s", Transport: config.Stdio, Command: "s", NewTools: "hold"}
	denies, allows := before, before
	denies.Tools.Deny, allows.Tools.Allow = []string{"del*"}, []string{"read"}
	for _, entry := range []config.Server{denies, allows} {
		w := opened("", one(before))
		w.storeOffer(t, before, offering("read", "delete"))
		check := func(when, want string) {
			t.Helper()
			var names []string
			for _, tool := range w.registry.Snapshot().Tools() {
				names = append(names, fmt.Sprint(tool.Name, " ", tool.Held))
			}
			expect.Equal(t, strings.Join(names, ", "), want, "%s", when)
		}
		w.Configure(one(entry))
		check("edited", "read false")
		for range 2 {
			w.Configure(one(before))
			expect.Equal(t, w.Listed(before), false, "the entry is listed if the edit is taken back")
			w.Configure(one(entry))
			w.storeOffer(t, before, offering("read", "delete"))
			check("listed again", "read false")
		}
		w.storeOffer(t, entry, offering("read"))
		w.Configure(one(before))
		w.storeOffer(t, before, offering("read", "delete"))
		check("allowed again", "delete false, read false")
	}
}
