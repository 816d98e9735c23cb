package catalog

import (
	"context"
	"encoding/json"
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
		if got := stored(); got != "s:first" {
			t.Errorf("stored is %q soon after the list", got)
		}
		end()
		synctest.Wait()
		list("second")
		w.Saves.Rest()
		if got := stored(); got != "s:second" {
			t.Errorf("stored is %q when the router has ended", got)
		}
	})
}

// A tool has the tags of its server's entry, and those that its name implies.
func TestTags(t *testing.T) {
	o := NewTagger(nil).tag(config.Server{Capabilities: []string{"z", " Demo", "z"}}, offering("delete_x"))
	expect.List(t, o.Tools[0].Capabilities, []string{"delete", "demo", "z"}, "capabilities")
}
