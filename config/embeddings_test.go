package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestEmbeddings(t *testing.T) {
	for _, tt := range []struct {
		text string
		want *Endpoint
		says string // by the only problem
	}{
		{`null`, nil, ""},
		{`{"url": "http://${HOST}/v1", "model": "m"}`, &Endpoint{URL: "http://example.com/v1", Model: "m"}, ""},
		{`{"url": "http://x/v1", "model": "m", "headers": {"Authorization": "Bearer ${TOKEN}"}}`,
			&Endpoint{URL: "http://x/v1", Model: "m", Headers: map[string]string{"Authorization": "Bearer sk-secret"}}, ""},
		{`"model"`, nil, `"embeddings" must be an object`},
		{`true`, nil, `"embeddings" must be an object`},
		{`{"model": "m"}`, nil, `"embeddings" needs "url" and "model"; write {"url": `},
		{`{"url": "http://x/v1"}`, nil, `needs "url" and "model"`},
		{`{"url": "x/${TOKEN}", "model": "m"}`, nil, `must be a whole URL`},
		{`{"url": "http://x/v1", "model": 1}`, nil, `"model" must be a string`},
		{`{"url": "http://x/v1", "model": "m", "modle": "m"}`, &Endpoint{URL: "http://x/v1", Model: "m"}, `did you mean "model"?`},
		{`{"url": "http://x/v1", "model": "m", "headers": {"A": "${NOPE}"}}`, nil, `"embeddings" is not used: the variable NOPE is not set`},
	} {
		c := loadText(t, `{"metarouter": {"embeddings": `+tt.text+`, "mode": "search"}, "mcpServers": {"s": {"command": "${TOKEN}"}}}`)
		expect.Deep(t, c.Router.Embeddings, tt.want, "%s", tt.text)
		var said []string
		for _, p := range c.Problems {
			said = append(said, p.Message)
		}
		all := strings.Join(said, "\n")
		if (tt.says == "") != (all == "") || len(said) > 1 || !strings.Contains(all, tt.says) || strings.Contains(all, "sk-secret") {
			t.Errorf("%s: problems %q, want one that says %q", tt.text, said, tt.says)
		}
		if c.Router.Mode != "search" || c.Servers[0].Misconfigured != "" {
			t.Errorf("%s: the rest is %q, %q", tt.text, c.Router.Mode, c.Servers[0].Misconfigured)
		}
	}
}

// A later file replaces the model of an earlier one as a whole: a header is for one URL.
func TestMergeEmbeddings(t *testing.T) {
	c := merged(t,
		`{"metarouter": {"embeddings": {"url": "http://a/v1", "model": "a", "headers": {"Authorization": "secret"}}}}`,
		`{"metarouter": {"embeddings": {"url": "http://b/v1", "model": "b"}}}`)
	if got, want := c.Router.Embeddings, (&Endpoint{URL: "http://b/v1", Model: "b"}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
