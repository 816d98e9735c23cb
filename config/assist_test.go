package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestAssist(t *testing.T) {
	for _, tt := range []struct {
		text string
		want *Assist
		says string // by the only problem
	}{
		{`null`, nil, ""},
		{`"sampling"`, &Assist{Sampling: true}, ""},
		{`{"url": "http://${HOST}/v1", "model": "m"}`, &Assist{Endpoint: Endpoint{URL: "http://example.com/v1", Model: "m"}}, ""},
		{`{"url": "http://x/v1", "model": "m", "headers": {"Authorization": "Bearer ${TOKEN}"}}`,
			&Assist{Endpoint: Endpoint{URL: "http://x/v1", Model: "m", Headers: map[string]string{"Authorization": "Bearer sk-secret"}}}, ""},
		{`"model"`, nil, `"assist" must be "sampling" or an object; write {"url": `},
		{`true`, nil, `must be "sampling" or an object`},
		{`{"model": "m"}`, nil, `"assist" needs "url" and "model"; write {"url": `},
		{`{"url": "http://x/v1"}`, nil, `needs "url" and "model"`},
		{`{"url": "x/${TOKEN}", "model": "m"}`, nil, `must be a whole URL`},
		{`{"url": "http://x/v1", "model": 1}`, nil, `"model" must be a string`},
		{`{"url": "http://x/v1", "model": "m", "modle": "m"}`, &Assist{Endpoint: Endpoint{URL: "http://x/v1", Model: "m"}}, `did you mean "model"?`},
		{`{"url": "http://x/v1", "model": "m", "headers": {"A": "${NOPE}"}}`, nil, `"assist" is not used: the variable NOPE is not set`},
	} {
		c := loadText(t, `{"metarouter": {"assist": `+tt.text+`, "mode": "search"}, "mcpServers": {"s": {"command": "${TOKEN}"}}}`)
		expect.Deep(t, c.Router.Assist, tt.want, "%s", tt.text)
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

func TestEmbeddings(t *testing.T) {
	for _, tt := range []struct {
		text string
		want *Endpoint
		says string // by the only problem
	}{
		{`null`, nil, ""},
		{`{"url": "http://x/v1", "model": "m", "headers": {"A": "${TOKEN}"}}`, &Endpoint{URL: "http://x/v1", Model: "m", Headers: map[string]string{"A": "sk-secret"}}, ""},
		{`"m"`, nil, `"embeddings" must be an object`},
		{`{"url": "http://x/v1"}`, nil, `"embeddings" needs "url" and "model"`},
		{`{"url": "http://${NOPE}/v1", "model": "m"}`, nil, `"embeddings" is not used: the variable NOPE is not set`},
	} {
		c := loadText(t, `{"metarouter": {"embeddings": `+tt.text+`}}`)
		expect.Deep(t, c.Router.Embeddings, tt.want, "%s", tt.text)
		if n := len(c.Problems); n != min(1, len(tt.says)) || n == 1 && !strings.Contains(c.Problems[0].Message, tt.says) {
			t.Errorf("%s: problems %v, want one that says %q", tt.text, c.Problems, tt.says)
		}
	}
}

// A later file replaces the model of an earlier one as a whole: a header is for one URL.
func TestMergeAssist(t *testing.T) {
	c := merged(t,
		`{"metarouter": {"assist": {"url": "http://a/v1", "model": "a", "headers": {"Authorization": "secret"}}}}`,
		`{"metarouter": {"assist": {"url": "http://b/v1", "model": "b"}}}`)
	if got, want := c.Router.Assist, (&Assist{Endpoint: Endpoint{URL: "http://b/v1", Model: "b"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
