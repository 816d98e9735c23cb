package service

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Secrets of "http" are read again at an edit and when a person asks, and not at each look at the same text.
func TestSecretsOf(t *testing.T) {
	folder := t.TempDir()
	load := func(text, secret string) config.Config {
		t.Helper()
		path := filepath.Join(folder, "mcp.json")
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
		expect.OK(t, os.WriteFile(filepath.Join(folder, "token"), []byte(secret), 0o600))
		c, err := config.Load(path)
		expect.OK(t, err)
		return c
	}
	const text = `{"metarouter": {"http": {"tokens": [{"token": "${file:token}", "name": "ci"}]}}}`
	secrets := secretsOf(t.Context(), nil, zap.NewNop())
	for _, step := range []struct {
		text, secret string
		again        bool
		want         string
	}{
		{text, "first", true, "first"}, {text, "second", false, "first"}, {text, "second", true, "second"},
		{text[:len(text)-1] + `, "mcpServers": {"s": {"command": "x"}}}`, "third", false, "third"},
	} {
		got := secrets(load(step.text, step.secret), step.again).Router.HTTP.Tokens
		if len(got) != 1 || got[0].Text != step.want {
			t.Errorf("%+v: %+v", step, got)
		}
	}
}
