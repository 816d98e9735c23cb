package functions_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/adapter/functions"
	"github.com/mcp-metarouter/metarouter/registry"
)

// An order is the argument of the example's function, and the source of its schema.
type order struct {
	Item  string `json:"item" jsonschema:"what is ordered"`
	Count int    `json:"count,omitempty" jsonschema:"how many; 1 if absent"`
}

// Go functions as tools: arguments are checked against the struct before the function
// is called.
func ExampleNew() {
	ctx := context.Background()
	shop := functions.New("shop", functions.Options{})
	defer shop.Close()
	err := functions.Add(shop, functions.Function{
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
