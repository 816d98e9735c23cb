package capability

import (
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// readOnly returns a tool that declares that it only reads.
func readOnly(name, description string) registry.NormalizedTool {
	return registry.NormalizedTool{Server: "s", Name: name, Description: description, Hints: registry.Hints{ReadOnly: new(true), Destructive: new(false), Idempotent: new(true)}}
}

// What a name, a title or a description says wins over the declaration that a tool only reads.
func TestDoubt(t *testing.T) {
	x := NewTaxonomy(nil)
	for _, c := range []struct{ name, description, word string }{
		{"delete_all", "", "delete"},
		{"deleteAll", "", "delete"},
		{"DELETE-ALL", "", "delete"},
		{"files.delete/all", "", "delete"},
		{"deleteall", "", "delete"},
		{"user_remove", "", "remove"},
		{"todo_list_delete", "", "delete"},
		{"list_delete_all", "", "delete"},
		{"search_and_destroy", "", "destroy"},
		{"find_and_remove", "Finds duplicates and removes them.", "remove"},
		{"get_or_create_user", "", "create"},
		{"deletes_everything", "", "deletes"},
		{"nuke_database", "", "nuke"},
		{"empty_trash", "", "empty"},
		{"stop_instance", "", "stop"},
		{"update_list", "", "update"},
		{"clear_search", "", "clear"},
		{"pay_invoice", "", "pay"},
		{"order_pizza", "", "order"},
		{"refund", "", "refund"},
		{"post_message", "", "post"},
		{"execute_sql", "", "execute"},
		{"forward_mail_message", "", "forward+message"},
		{"tidy", "Deletes all that is older than a day.", "deletes"},
		{"tidy", "Use this tool to delete old files.", "delete"},
		{"tidy", "Lists old files and deletes them.", "deletes"},
		{"apply_now", "Applies the changes.", "apply"},
		{"assistant", "Post a message to a channel.", "post"},
	} {
		got := x.Doubt(readOnly(c.name, c.description))
		expect.Contains(t, got, `("`+c.word+`")`, "%s, %q", c.name, c.description)
	}
	for _, c := range []struct{ name, description string }{
		{"get_deleted_items", "Deleted items of a mailbox."},
		{"list_payments", "Lists payments."},
		{"list_orders_and_refunds", "Lists orders and refunds."},
		{"search_orders", "Search for orders."},
		{"order_list", "Orders of a customer."},
		{"order_status", "Status of an order."},
		{"schedule_get", "Schedule of a day."},
		{"preview_update", "Preview an update, and change nothing."},
		{"dry_run_delete", "Shows what would be deleted."},
		{"can_delete_user", ""},
		{"is_archived", ""},
		{"has_write_access", ""},
		{"simulate_order", ""},
		{"compare_commits", ""},
		{"commit_history", "Commit history of a branch."},
		{"get_commit", "Get a commit."},
		{"list_updates", ""},
		{"updated_since", ""},
		{"deleted_items", ""},
		{"settings", "Settings of the account."},
		{"generate_commit_message", ""},
		{"execute_read_query", "Execute a query that only reads."},
		{"validate_update", "Validates an update before it is made."},
		{"book_details", "Details of a book."},
		{"list_trash", ""},
		{"count_stars", "Stars of a repository."},
		{"weather", "Returns the weather; it never deletes, and writes nothing."},
		{"address", "Address of a store."},
		{"", ""},
		{"löschen", "Löscht alles."}, // only English words are known
	} {
		expect.Equal(t, x.Doubt(readOnly(c.name, c.description)), "", "%s, %q", c.name, c.description)
	}
}

// Besides the name, a tool's title, the name that the configuration gives it, and what a
// parameter can be are looked at.
func TestDoubtPlaces(t *testing.T) {
	x := NewTaxonomy(nil)
	action := json.RawMessage(`{"properties":{"action":{"enum":["get",7,"delete"]}}}`)
	for _, c := range []struct {
		tool func(*registry.NormalizedTool)
		want string
	}{
		{func(o *registry.NormalizedTool) {}, ""},
		{func(o *registry.NormalizedTool) { o.Title = "Delete all" }, `its title says that it deletes ("delete")`},
		{func(o *registry.NormalizedTool) { o.Name, o.Original = "tidy", "delete_all" }, `its name says that it deletes ("delete")`},
		{func(o *registry.NormalizedTool) { o.Name, o.Original = "delete_all", "tidy" }, `its name says that it deletes ("delete")`},
		{func(o *registry.NormalizedTool) { o.Server = "delete_all" }, ""},
		{func(o *registry.NormalizedTool) { o.InputSchema = action }, `it deletes if its parameter "action" is "delete"`},
		{func(o *registry.NormalizedTool) { o.InputSchema, o.Name = action, "list_events" }, ""},
		{func(o *registry.NormalizedTool) { o.Name, o.Hints.ReadOnly = "delete_all", nil }, `its name says that it deletes ("delete")`},
		{func(o *registry.NormalizedTool) { o.Name, o.Hints.ReadOnly = "create_note", nil }, ""}, // it destroys nothing
		{func(o *registry.NormalizedTool) { o.Name, o.Hints = "delete_all", registry.Hints{} }, ""},
		{func(o *registry.NormalizedTool) {
			o.Name, o.Hints = "delete_all", registry.Hints{ReadOnly: new(false), Destructive: new(true)}
		}, ""},
	} {
		tool := readOnly("notes", "Notes.")
		c.tool(&tool)
		expect.Equal(t, x.Doubt(tool), c.want, "%v", tool)
	}
}

// Words of the configuration add to those that are known, and replace none.
func TestDoubtOverrides(t *testing.T) {
	x := NewTaxonomy(map[string][]string{"delete": {"^löschen"}, "write": {}})
	for name, want := range map[string]string{"löschen": "deletes", "delete_all": "deletes", "create_x": "changes something"} {
		expect.Contains(t, x.Doubt(readOnly(name, "")), want, "%s", name)
	}
}

func FuzzDoubt(f *testing.F) {
	f.Add("delete_all", "Delete all", "Deletes all and more.", `{"properties":{"action":{"enum":["a"]}}}`)
	f.Add("get-or-", "", "and and or", `[`)
	x := NewTaxonomy(nil)
	f.Fuzz(func(t *testing.T, name, title, description, schema string) {
		tool := readOnly(name, description)
		tool.Title, tool.InputSchema = title, json.RawMessage(schema)
		why := x.Doubt(tool)
		if tool.Hints = (registry.Hints{}); x.Doubt(tool) != "" {
			t.Errorf("a tool that declares nothing is doubted: %q", why)
		}
	})
}

// A checkout of a repository writes, and pays nothing.
func TestDoubtOfCheckout(t *testing.T) {
	for name, want := range map[string]string{
		"git_checkout": "", "checkout_branch": "", "checkout_cart": `its name says that it pays ("checkout")`,
	} {
		tool := readOnly(name, "")
		tool.Hints = registry.Hints{Destructive: new(false)}
		expect.Equal(t, NewTaxonomy(nil).Doubt(tool), want, "%s, which destroys nothing", name)
	}
	if got, want := NewTaxonomy(nil).Doubt(readOnly("git_checkout", "")), `its name says that it changes something ("checkout")`; got != want {
		t.Errorf("git_checkout, which only reads: %q, want %q", got, want)
	}
}
