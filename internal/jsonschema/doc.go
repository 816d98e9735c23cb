// Package jsonschema is a copy of github.com/santhosh-tekuri/jsonschema/v6 that is initialised
// later: when the first compiler is made.
//
// The original compiles the schemas of all drafts before main, in each process of the program. That
// takes about 4 ms and 1.7 MB, and leads to a collection of garbage before the first server starts.
// TestCopy holds the copy to the version in go.mod, and writes it when that changes:
//
//	go test ./internal/jsonschema -update
package jsonschema
