// Package layer says which tests run when.
//
// The tests have three layers. "go test -short" runs units: no process, no socket but httptest's, no real time.
// "go test" adds integration, with processes, files and sockets: a scenario for each promise. METAROUTER_TESTS=full adds
// tests that take long, need strange programs, or measure.
//
// A test of the second or third layer says so first. A missing program skips it; with METAROUTER_TESTS=all or full, it
// fails.
package layer

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// variable is "all" where a missing program is a failure, and "full" where the third layer runs too.
const variable = "METAROUTER_TESTS"

// Integration skips the test in a short run.
func Integration(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("integration: go test without -short runs it")
	}
}

// Package ends the test program in a short run: the package has no unit tests. TestMain calls it first, once it knows that
// the program does not play a server.
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

// Strict reports whether a test fails for a missing program.
func Strict() bool { return os.Getenv(variable) == "all" || os.Getenv(variable) == "full" }
