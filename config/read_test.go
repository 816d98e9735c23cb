package config

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "there is no such.json")
	c, err := readExpanded(path, []byte(`{"$schema": "`+schemaURL+`", "mcpServers": {"a": {"command": "x", "cwd": "sub"}}}`))
	if err != nil || len(c.Problems) > 0 || len(c.Servers) != 1 || c.Servers[0].Cwd != filepath.Join(filepath.Dir(path), "sub") || c.Files[0] != path {
		t.Errorf("got %+v, %v", c, err)
	}
	// Nor is it a server where those have no key of their own.
	if c, err = readExpanded(path, []byte(`{"$schema": "x", "a": {"command": "x"}}`)); err != nil || len(c.Problems) > 0 || len(c.Servers) != 1 {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := readExpanded(path, []byte(`{`)); err == nil {
		t.Error("half an object was read")
	}
}

func TestServersKey(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                        "mcpServers",
		`{"metarouter": {}}`:                        "mcpServers",
		`{"servers": {}, "inputs": []}`:             "servers",
		`{"context_servers": {}}`:                   "context_servers",
		`{"servers": {}, "mcpServers": {}}`:         "mcpServers",
		`{"a": {"command": "x"}, "metarouter": {}}`: "",
	} {
		if got, err := ServersKey("f", []byte(text)); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
	if got, err := ServersKey("f", []byte(`{"history": "`+strings.Repeat("x", maxFile)+`", "servers": {}}`)); got != "servers" || err != nil {
		t.Errorf("a long history: %q, %v", got, err)
	}
	if _, err := ServersKey("f", []byte(`[]`)); err == nil {
		t.Error("an array has servers")
	}
}
