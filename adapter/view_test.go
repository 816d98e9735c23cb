package adapter

import (
	"reflect"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A method of View shows clients a part of the router. Before it is added here, tests must show that it
// hides everything that their profiles hide: here and in the walk of package server.
func TestMethodsOfView(t *testing.T) {
	want := []string{
		"Await", "Changed", "Check", "Classifier", "Complete", "Execute", "Exists", "Explain", "Find", "IsScript",
		"Listen", "LogIn", "Nodes", "Plan", "Relay", "Release", "RunScript", "Select", "Servers", "SetLevel", "Settled", "Snapshot", "Subscribe",
		"Tell", "Unlisted",
	}
	var got []string
	view := reflect.TypeFor[*View]()
	for i := range view.NumMethod() {
		got = append(got, view.Method(i).Name)
	}
	expect.List(t, got, want, "the methods")
	if s := reflect.TypeFor[scoped](); s.NumField() != 2 || s.Field(0).Anonymous || s.Field(1).Anonymous {
		t.Error("the parts of a View promote methods of the router")
	}
}
