package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A hinted is a server with tools that change their hints, and the catalog that has it.
type hinted struct {
	t     *testing.T
	data  string
	entry config.Server
	w     *Writer
}

func newHinted(t *testing.T) *hinted {
	h := &hinted{t: t, data: t.TempDir(), entry: config.Server{Name: "s", Transport: config.Stdio, Command: "s"}}
	h.restart()
	return h
}

func (h *hinted) restart() {
	h.w = opened(h.data, one(h.entry))
}

// edit puts an edited entry into use, as the router does.
func (h *hinted) edit() {
	h.w.Configure(one(h.entry))
}

// list has the server list tools with these hints.
func (h *hinted) list(tools map[string]registry.Hints) {
	h.t.Helper()
	var o registry.Offer
	for name, hint := range tools {
		o.Tools = append(o.Tools, registry.NormalizedTool{ID: "s:" + name, Server: "s", Name: name, Hints: hint, Definition: json.RawMessage(`{}`)})
	}
	h.w.storeOffer(h.t, h.entry, o)
}

// check compares the doubt about a tool, now and after a restart.
func (h *hinted) check(when, tool, want string) {
	h.t.Helper()
	for i := range 2 {
		found, ok := h.w.registry.Snapshot().Tool("s:" + tool)
		if !ok || !strings.Contains(found.Doubt, want) || want == "" && found.Doubt != "" || found.Reads() == (want != "") {
			h.t.Fatalf("%s, restarts: %d: %s, tool %+v, want the doubt %q", when, i, tool, found, want)
		}
		h.restart()
	}
}

// A name that says that the tool deletes wins over its hint, unless the entry trusts hints.
func TestDoubtOfNames(t *testing.T) {
	h := newHinted(t)
	reads := registry.Hints{ReadOnly: new(true)}
	h.list(map[string]registry.Hints{"delete_all": reads, "get_deleted_items": reads})
	h.check("listed", "delete_all", `its name says that it deletes ("delete")`)
	h.check("listed", "get_deleted_items", "")
	h.entry.TrustHints = true
	h.edit()
	h.check("the entry trusts hints", "delete_all", "")
	h.entry.TrustHints = false
	h.edit()
	h.check("no more", "delete_all", "its name")
}

// Hints that claim more than before are doubted until a person has confirmed them, whatever
// the entry trusts.
func TestDoubtOfChanges(t *testing.T) {
	h := newHinted(t)
	h.entry.TrustHints = true
	h.restart()
	tidy := func(of registry.Hints) map[string]registry.Hints { return map[string]registry.Hints{"tidy": of} }
	reads, repeats := registry.Hints{ReadOnly: new(true)}, registry.Hints{Idempotent: new(true)}
	changed := "its hints changed and no person has confirmed them: readOnlyHint was "
	h.list(tidy(registry.Hints{ReadOnly: new(false)}))
	h.list(tidy(reads))
	h.check("changed", "tidy", changed+"false and is true")
	h.list(tidy(reads))
	h.check("listed again", "tidy", changed+"false and is true")
	expect.OK(t, h.w.Seen("s"))
	h.check("the definition was seen", "tidy", changed+"false and is true")

	expect.Error(t, h.w.ConfirmHints("s", tidy(repeats)), "tidy", "confirmed other hints than were shown")
	h.check("others were confirmed", "tidy", changed)
	expect.OK(t, h.w.ConfirmHints("s", tidy(reads)))
	h.check("confirmed", "tidy", "")
	expect.Equal(t, len(hints.Unconfirmed(h.w.registry.Snapshot().Offer("s"))), 0, "unconfirmed")

	h.list(tidy(registry.Hints{}))
	h.list(tidy(reads))
	h.check("back to what was confirmed", "tidy", "")
	h.list(map[string]registry.Hints{"other": {}})
	h.list(map[string]registry.Hints{"other": reads, "tidy": reads})
	h.check("gone and back", "tidy", "")
	h.check("changed", "other", changed+"missing")

	h.entry.Args = []string{"edited"}
	h.restart()
	h.list(map[string]registry.Hints{"other": reads})
	h.check("the entry was edited while no router ran", "other", changed+"missing")

	h.entry.Args = []string{"edited again"}
	h.restart()
	if err := h.w.ConfirmHints("s", map[string]registry.Hints{"other": reads}); err == nil {
		t.Error("confirmed what is not known")
	}
}
