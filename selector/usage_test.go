package selector

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
	"github.com/mcp-metarouter/metarouter/internal/usage"
	"github.com/mcp-metarouter/metarouter/selector/internal/rank"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

var office = []string{
	"books:update_invoice Change the status of an invoice",
	"books:list_invoices List the invoices of a customer",
	"memory:save Keep a note for later",
	"sky:get_forecast The weather of the next days",
	"deploy:rollback_release Restore the previous version of a service",
	"chat:post_message Send a message to a channel",
}

// learner returns a selector of the tools on the lines that learns, and what one client's
// call after a search teaches it.
func learner(t *testing.T, lines ...string) (*Selector, func(Use)) {
	t.Helper()
	store, err := usage.Open("", []string{"config"}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	s := picker(t, lines...)
	s.experience = store
	return s, func(u Use) {
		t.Helper()
		if u, ok := s.Credit(t.Context(), u); ok {
			store.Record(u)
		}
	}
}

// After one call of the right tool, a task finds it: first, and with confidence.
func TestAskedAgain(t *testing.T) {
	for task, right := range map[string]string{
		"note it as paid": "books:update_invoice",
		"change the service to how it was last week": "deploy:rollback_release",
		"zorble the quux": "chat:post_message", // of unknown words
	} {
		s, learn := learner(t, office...)
		before, err := s.Select(t.Context(), Query{Task: task})
		if err != nil || before.Sure && before.Tool.ID == right || rank.ByUse(before.Features) {
			t.Fatalf("%q finds %+v already, %v", task, before.Tool, err)
		}
		learn(Use{Client: "me", Task: task, Tool: right, Unlisted: true, First: true})
		for _, again := range []string{task, strings.ToUpper(task[:1]) + task[1:] + ", please"} {
			found, err := s.Find(t.Context(), Query{Task: again})
			if err != nil || found.Abstained || found.Candidates[0].Tool.ID != right || found.Candidates[0].Confidence < 0.5 {
				t.Errorf("%q finds %+v, %v", again, found, err)
			}
			if selected, err := s.Select(t.Context(), Query{Task: again}); err != nil || !rank.ByUse(selected.Features) {
				t.Errorf("%q is not selected by use: %+v, %v", again, selected, err)
			}
		}
	}
}

// Near words find the tool too, but do not decide: their verb may be the opposite.
func TestAskedAlike(t *testing.T) {
	s, learn := learner(t, office...)
	learn(Use{Client: "me", Task: "go back to the release of last week", Tool: "deploy:rollback_release", Unlisted: true, First: true})
	found, err := s.Select(t.Context(), Query{Task: "go back to the release of Monday"})
	if err != nil || found.Tool == nil || found.Tool.ID != "deploy:rollback_release" || found.Confidence < 0.25 || rank.ByUse(found.Features) {
		t.Errorf("found %+v, %v", found, err)
	}
	s, learn = learner(t, "gh:close_issue Close an issue", "gh:open_issue Open an issue")
	learn(Use{Client: "me", Task: "open the login issue", Tool: "gh:open_issue", Unsure: true})
	found, err = s.Select(t.Context(), Query{Task: "close the login issue"})
	if err != nil || found.Tool == nil || found.Tool.ID != "gh:close_issue" {
		t.Errorf("the opposite finds %+v, %v", found, err)
	}
}

// A call of a tool that has nothing to do with the task teaches nothing, unless it comes twice.
func TestUnrelatedCall(t *testing.T) {
	s, learn := learner(t, office...)
	task := "how warm is it in Paris"
	finds := func() string {
		t.Helper()
		found, err := s.Find(t.Context(), Query{Task: task})
		if err != nil {
			t.Fatal(err)
		}
		return found.Candidates[0].Tool.ID
	}
	before := finds()
	learn(Use{Client: "me", Task: task, Tool: "books:update_invoice", Unlisted: true, First: true})
	learn(Use{Client: "me", Task: task, Tool: "books:update_invoice", Unlisted: true})
	if got := finds(); got != before {
		t.Errorf("an unrelated call has it find %s", got)
	}
	learn(Use{Client: "me", Task: task, Tool: "books:update_invoice", Unlisted: true, First: true})
	if got := finds(); got != "books:update_invoice" {
		t.Errorf("a second call has it find %s", got)
	}
	learn(Use{Client: "me", Task: task, Tool: "books:update_invoice", Withdrawn: true})
	if got := finds(); got != before {
		t.Errorf("withdrawn, it finds %s", got)
	}
}

// Neither the words nor the text of a query keep a secret on disk.
func TestSecretsAreNotKept(t *testing.T) {
	dir := t.TempDir()
	store, err := usage.Open(dir, []string{"config"}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	s := picker(t, office...)
	for _, task := range []string{
		"log in to the shop with password hunter2", "post it with token ghp_abcdefghijklmnop0123456789abcd",
		"open https://me:mine77@example.org/x?api_key=q1w2e3r4", "the api key is Zx81kqPPw, list the invoices",
	} {
		u, ok := s.Credit(t.Context(), Use{Client: "alice", Task: task, Tool: "books:list_invoices"})
		if !ok {
			t.Fatalf("%q teaches nothing", task)
		}
		store.Record(u)
		store.Record(Use{Client: "bob", Task: task, Words: u.Words, Tool: "books:list_invoices"}) // not credited
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Run(ended); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "usage", "*"))
	if len(files) != 1 {
		t.Fatalf("files %q", files)
	}
	data, err := os.ReadFile(files[0])
	if err != nil || !strings.Contains(string(data), "log in to the shop with password …") {
		t.Errorf("kept is %s, %v", data, err)
	}
	for _, secret := range []string{"hunter", "ghp_", "abcdefgh", "mine77", "q1w2e3r4", "zx81", "kqpp", "alice", "bob"} {
		if strings.Contains(strings.ToLower(string(data)), secret) {
			t.Errorf("%q is in the file: %s", secret, data)
		}
	}
}

// The words that are learned are those that are looked up.
func TestUseWords(t *testing.T) {
	s, learn := learner(t, office...)
	learn(Use{Client: "me", Task: "Bitte die Rechnung als bezahlt vermerken", Tool: "books:update_invoice", Unlisted: true, First: true})
	found, err := s.Find(t.Context(), Query{Task: "Bitte die Rechnung als bezahlt vermerken!"})
	if err != nil || found.Candidates[0].Tool.ID != "books:update_invoice" || found.Candidates[0].Confidence < 0.5 {
		t.Errorf("found %+v, %v", found, err)
	}
	words := slices.Collect(func(yield func(string) bool) {
		for _, e := range s.experience.(*usage.Store).Tools() {
			for _, q := range e.Queries {
				yield(q.Typed)
			}
		}
	})
	if !slices.Equal(words, []string{"Bitte die Rechnung als bezahlt vermerken"}) {
		t.Errorf("kept is %q", words)
	}
	task := text.Task{Text: []string{"open"}, Literals: []text.Literal{{Type: analysis.URLType, Text: "https://a.example"}, {Type: analysis.PathType, Extension: "csv"}}}
	if got := useWords(task); !slices.Equal(got, []string{"open", "<url>", "<path csv>"}) {
		t.Errorf("the words are %q", got)
	}
	for i := range analysis.NumTypes {
		if i.String() == "" {
			t.Errorf("type %d has no name", i)
		}
	}
	if got := s.experience.Match([]string{"unseen"}, time.Now()); len(got) > 0 {
		t.Errorf("unseen words give %v", got)
	}
}
