package login

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestDocument(t *testing.T) {
	tests := []struct {
		public, setting string
		served          bool
		url             string // of the document for issuers
	}{
		{"", "", false, ""},
		{"", "https://us.example/client.json", false, "https://us.example/client.json"},
		{"http://127.0.0.1:8090", "", true, ""},
		{"https://localhost:8090", "", true, ""},
		{"https://10.0.0.7", "", true, ""},
		{"https://[::1]:1", "", true, ""},
		{"https://nas.local", "", true, ""},
		{"https://nas", "", true, ""},
		{"http://router.example.com", "", true, ""},
		{"https://router.example.com/", "", true, "https://router.example.com/oauth/client.json"},
		{"https://example.com/tools", "", true, "https://example.com/tools/oauth/client.json"},
		{"https://router.example.com/mcp", "https://us.example/client.json", true, "https://us.example/client.json"},
	}
	for _, test := range tests {
		l := New(Options{PublicURL: func() string { return test.public }})
		defer l.Close()
		text := l.Document()
		expect.Equal(t, documentURL(l.publicURL(), oauth.Settings{ClientMetadataURL: test.setting}), test.url, "%s", test.public)
		if (text != nil) != test.served {
			t.Errorf("%q: %s", test.public, text)
			continue
		}
		if text == nil {
			continue
		}
		var d struct {
			ClientID     string   `json:"client_id"`
			AuthMethod   string   `json:"token_endpoint_auth_method"`
			RedirectURIs []string `json:"redirect_uris"`
		}
		expect.OK(t, json.Unmarshal(text, &d))
		base := l.publicURL()
		if d.ClientID != base+DocumentPath || d.AuthMethod != "none" || !slices.Contains(d.RedirectURIs, base+CallbackPath) ||
			!slices.Contains(d.RedirectURIs, "http://127.0.0.1/callback") || !slices.Contains(d.RedirectURIs, "http://localhost/callback") {
			t.Errorf("%s", text)
		}
	}
	l := New(Options{})
	defer l.Close()
	if l.Document() != nil {
		t.Error("a document without a public URL")
	}
}
