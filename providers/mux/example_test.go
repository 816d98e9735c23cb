package mux_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter/functions"
	"github.com/mcp-metarouter/metarouter/providers/mux"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// Two providers as one. The second stands in where the first can't answer.
func ExampleNew() {
	ctx := context.Background()
	weather := func(source string, err error) *functions.Provider {
		f, timeout := functions.New(source, functions.Options{}), time.Minute
		if err != nil {
			timeout = 10 * time.Millisecond
		}
		if err := functions.Add(f, functions.Function{
			Name: "get_weather", Description: "Say how the weather is in a city.",
			Hints: registry.Hints{ReadOnly: new(true)}, Timeout: timeout,
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
	all, err := mux.New("all", weather("north", context.DeadlineExceeded), weather("south", nil))
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
