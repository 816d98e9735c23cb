package openai_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/providers/openai"
)

// Ask a model of an AI service, and print its answer as it comes.
func ExampleNew() {
	ai := httptest.NewServer(http.HandlerFunc(poet)) // instead of https://api.openai.com/v1
	defer ai.Close()

	models, err := openai.New("ai", openai.Options{BaseURL: ai.URL + "/v1"})
	if err != nil {
		log.Fatal(err)
	}
	defer models.Close()
	ctx := context.Background()
	if err := models.Health(ctx).Err(); err != nil { // its models are known
		log.Fatal(err)
	}
	for _, tool := range models.FindByCapability("code") {
		fmt.Println(tool.ID, tool.Capabilities)
	}

	streaming := openai.WithDeltas(ctx, func(text string) { fmt.Printf("%q\n", text) })
	result, err := adapter.Execute(streaming, models, "ai:poet-1", map[string]any{"prompt": "Write a line about the sea.", "max_tokens": 50})
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
