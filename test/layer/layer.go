// Package layer says which tests run when.
//
// The tests have three layers. "go test -short" runs units: no process, no socket but those of httptest, no real time.
// "go test" adds integration: what only processes, files and sockets show, a scenario for each promise. With
// METAROUTER_TESTS=full also runs what takes long, needs strange programs, or measures.
//
// A test of the second or third layer says so first. What it needs and does not find skips it; with METAROUTER_TESTS=all
// or full it fails.
package layer

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// variable is "all" where what a test needs and does not find is a failure, and "full" where the third layer runs too.
const variable = "METAROUTER_TESTS"

// Integration skips the test in a short run.
func Integration(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("integration: go test without -short runs it")
	}
}

// Package ends the test program in a short run: the package has no unit tests. TestMain calls it first, after what makes
// the program play a server.
func Package() {
	if flag.Parse(); testing.Short() {
		fmt.Fprintln(os.Stderr, "integration: go test without -short runs it")
		os.Exit(0)
	}
}

// Full skips the test unless the third layer runs.
func Full(t testing.TB) {
	t.Helper()
	if !Everything() {
		t.Skip("it takes long: " + variable + "=full runs it")
	}
}

// Everything reports whether the third layer runs.
func Everything() bool { return os.Getenv(variable) == "full" && !testing.Short() }

// Strict reports whether a test fails for what it needs and does not find.
func Strict() bool { return os.Getenv(variable) == "all" || os.Getenv(variable) == "full" }

// Missing skips a test that does not find what it needs, or fails it.
func Missing(t testing.TB, what string) {
	t.Helper()
	if Strict() {
		t.Fatal(variable + " is " + os.Getenv(variable) + ", and there is no " + what)
	}
	t.Skip("there is no " + what)
}
