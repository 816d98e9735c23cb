package catalog

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
)

func TestFinder(t *testing.T) {
	c := config.Config{Servers: []config.Server{
		{Name: "off", Transport: config.Stdio, Command: "x", Disabled: true},
		{Name: "first", Transport: config.Stdio, Command: "x"},
		{Name: "second", Transport: config.Stdio, Command: "x"},
		{Name: "named", Transport: config.Stdio, Command: "y", Env: map[string]string{"K": "1"}},
	}}
	find := finder(&c)
	for name, s := range map[string]config.Server{
		"first": {Name: "other", Transport: config.Stdio, Command: "x"},
		"named": {Name: "named", Transport: config.Stdio, Command: "y", Env: map[string]string{"K": "2"}},
		"":      {Name: "named", Transport: config.Stdio, Command: "z"},
	} {
		if got, ok := find(s); got.Name != name && ok || ok != (name != "") {
			t.Errorf("%+v: found %q, %v, want %q", s, got.Name, ok, name)
		}
	}
	if _, ok := finder(nil)(c.Servers[1]); ok {
		t.Error("found without a configuration")
	}
}
