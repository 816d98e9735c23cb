package adapter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/registry"
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

// An order is what the function of the example takes. Its schema is made of it.
type order struct {
	Item  string `json:"item" jsonschema:"what is ordered"`
	Count int    `json:"count,omitempty" jsonschema:"how many; 1 if absent"`
}

// Go functions as tools: arguments are checked against the struct before the function
// is called.
func ExampleNewFunctions() {
	ctx := context.Background()
	shop := adapter.NewFunctions("shop", adapter.FunctionsOptions{})
	defer shop.Close()
	err := adapter.Add(shop, adapter.Function{
		Name:         "price_order",
		Description:  "Say what an order costs.",
		Capabilities: []string{"ordering"},
		Hints:        registry.Hints{ReadOnly: new(true)},
	}, func(_ context.Context, o order) (string, error) {
		return fmt.Sprintf("%d × %s: %d €", max(o.Count, 1), o.Item, 3*max(o.Count, 1)), nil
	})
	if err != nil {
		log.Fatal(err)
	}

	for _, arguments := range []any{order{"tea", 2}, map[string]any{"item": "tea", "colour": "green"}} {
		result, err := adapter.Execute(ctx, shop, "shop:price_order", arguments)
		if err != nil {
			log.Fatal(err)
		}
		first, _, _ := strings.Cut(result.Text(), "\nSchema")
		fmt.Println(first)
	}
	// Output:
	// 2 × tea: 6 €
	// The arguments do not fit the schema of shop:price_order; nothing was called.
	// - arguments: additional properties 'colour' not allowed
}

// A model of an AI provider, whose answer is shown as it comes.
func ExampleNewChat() {
	ai := httptest.NewServer(http.HandlerFunc(poet)) // instead of https://api.openai.com/v1
	defer ai.Close()

	chat, err := adapter.NewChat("ai", adapter.ChatOptions{BaseURL: ai.URL + "/v1"})
	if err != nil {
		log.Fatal(err)
	}
	defer chat.Close()
	ctx := context.Background()
	if err := chat.Refresh(ctx); err != nil { // its models are known
		log.Fatal(err)
	}
	for _, tool := range chat.FindByCapability("code") {
		fmt.Println(tool.ID, tool.Capabilities)
	}

	streaming := adapter.WithDeltas(ctx, func(text string) { fmt.Printf("%q\n", text) })
	result, err := adapter.Execute(streaming, chat, "ai:poet-1", map[string]any{"prompt": "Write a line about the sea.", "max_tokens": 50})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text())
	// Output:
	// ai:gpt-4o-mini [ai chat code vision]
	// "The sea "
	// "does not ask."
	// The sea does not ask.
}

// poet is an endpoint of the chat API with two models and one answer.
func poet(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		fmt.Fprint(w, `{"object": "list", "data": [{"id": "gpt-4o-mini"}, {"id": "poet-1"}, {"id": "text-embedding-3-small"}]}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, text := range []string{"The sea ", "does not ask."} {
		fmt.Fprintf(w, "data: {\"model\": \"poet-1\", \"choices\": [{\"index\": 0, \"delta\": {\"content\": %q}}]}\n\n", text)
	}
	fmt.Fprint(w, "data: {\"choices\": [{\"index\": 0, \"delta\": {}, \"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n")
}

// Two providers as one. The second stands in where the first can't answer.
func ExampleNewMux() {
	ctx := context.Background()
	weather := func(source string, err error) *adapter.Functions {
		f := adapter.NewFunctions(source, adapter.FunctionsOptions{})
		if err := adapter.Add(f, adapter.Function{
			Name: "get_weather", Description: "Say how the weather is in a city.",
			Hints: registry.Hints{ReadOnly: new(true)}, Timeout: 10 * time.Millisecond,
		}, func(ctx context.Context, in struct {
			City string `json:"city"`
		}) (string, error) {
			if err != nil {
				<-ctx.Done() // it hangs
				return "", ctx.Err()
			}
			return source + " says that it rains in " + in.City, nil
		}); err != nil {
			log.Fatal(err)
		}
		return f
	}
	all, err := adapter.NewMux("all", weather("north", context.DeadlineExceeded), weather("south", nil))
	if err != nil {
		log.Fatal(err)
	}
	defer all.Close()
	fmt.Println(all.Health(ctx))

	query := selector.Query{Task: "How is the weather in Oslo?", Servers: []string{"north"}}
	selection, err := all.Select(ctx, query)
	if err != nil {
		log.Fatal(err)
	}
	result, err := all.Execute(ctx, selector.Call{Tool: selection.Tool, Arguments: json.RawMessage(`{"city": "Oslo"}`)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text())
	var meta struct {
		Degraded bool     `json:"degraded"`
		Path     []string `json:"execution_path"`
	}
	if err := json.Unmarshal(result.Meta(), &meta); err != nil {
		log.Fatal(err)
	}
	fmt.Println(meta.Degraded, meta.Path)
	// Output:
	// all is up
	// south says that it rains in Oslo
	// true [local north:get_weather south:get_weather]
}

// Why a tool was selected, in a line.
func ExampleWhy() {
	ctx := context.Background()
	office := adapter.NewFunctions("office", adapter.FunctionsOptions{})
	defer office.Close()
	for name, description := range map[string]string{
		"send_mail": "Send a mail to somebody.", "book_room": "Book a meeting room.", "find_file": "Find a file by its name.",
	} {
		err := adapter.Add(office, adapter.Function{Name: name, Description: description}, func(context.Context, struct{}) (string, error) { return "done", nil })
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
