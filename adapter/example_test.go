package adapter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/adapter/functions"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A router inside a program. Its main begins with Embed, so that the servers end with
// the program however it ends.
func ExampleOpen() {
	options := adapter.Embed(adapter.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	router, err := adapter.Open(ctx, options, "testdata/mcp.json")
	if err != nil {
		log.Fatal(err)
	}
	defer router.Close()
	router.Settled(ctx) // the tools of all servers are known

	query := selector.Query{Task: "How many metres are 6 feet?", Capabilities: []string{"conversion"}}
	selection, err := router.Select(ctx, query)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(selection.Tool.ID)

	result, err := router.Execute(ctx, selector.Call{
		Tool:      selection.Tool,
		Arguments: json.RawMessage(`{"value": 6, "from_unit": "ft", "to_unit": "m"}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text())
	// Output:
	// utilities:unit_convert
	// {"from_unit":"ft","to_unit":"m","value":1.8288}
}

// A script calls tools, and returns what it makes of their results.
func ExampleRunScript() {
	options := adapter.Embed(adapter.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	router, err := adapter.Open(ctx, options, "testdata/mcp.json")
	if err != nil {
		log.Fatal(err)
	}
	defer router.Close()
	router.Settled(ctx) // the tools of all servers are known

	outcome := adapter.RunScript(ctx, router, selector.Script{
		Code: `
			let metres = 0;
			for (const value of input) {
				metres += (await tools.utilities.unit_convert({ value, from_unit: "ft", to_unit: "m" })).value;
			}
			return metres.toFixed(2) + " m";`,
		Input: json.RawMessage(`[6, 12, 18]`),
	})
	if outcome.Err != nil {
		log.Fatal(outcome.Err)
	}
	fmt.Println(string(outcome.Value), "after", len(outcome.Calls), "calls")
	// Output:
	// "10.97 m" after 3 calls
}

// Why a tool was selected, in a line.
func ExampleWhy() {
	ctx := context.Background()
	office := functions.New("office", functions.Options{})
	defer office.Close()
	for name, description := range map[string]string{
		"send_mail": "Send a mail to somebody.", "book_room": "Book a meeting room.", "find_file": "Find a file by its name.",
	} {
		err := functions.Add(office, functions.Function{Name: name, Description: description}, func(context.Context, struct{}) (string, error) { return "done", nil })
		if err != nil {
			log.Fatal(err)
		}
	}
	query := selector.Query{Task: "book a room for Friday"}
	selection, err := office.Select(ctx, query)
	if err != nil {
		log.Fatal(err)
	}
	_, why, _ := strings.Cut(adapter.Why(ctx, office, query, selection), ": ")
	fmt.Println(selection.Tool.ID, "since", why)
	// Output:
	// office:book_room since its name has "book" and "room"; its meaning is near
}
