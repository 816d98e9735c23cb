package mcptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Scenario is one of the official conformance suite, as it went.
type Scenario struct {
	Name   string
	Scored bool // by the revision's requirements
	Checks []Check
}

// Check is one check of a scenario. Status is SUCCESS, FAILURE, WARNING, SKIPPED
// or INFO.
type Check struct {
	ID, Name, Description, Status, ErrorMessage string

	Details json.RawMessage
}

// Conformance runs the official suite, locked in testdata/conformance, with these
// arguments, and returns what it wrote for a person.
func Conformance(t testing.TB, args ...string) string {
	t.Helper()
	script := filepath.Join(modules(t, conformanceFolder), "@modelcontextprotocol", "conformance", "dist", "index.js")
	cmd := exec.Command(Node22(t), append([]string{script}, args...)...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	// It exits with 1 if a check fails, which its results say better.
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("run the conformance suite: %v\n%s", err, out)
	}
	return string(out)
}

const conformanceFolder = "internal/mcptest/testdata/conformance"

// ServerConformance runs everything that a revision requires of a server.
func ServerConformance(t testing.TB, url, revision string) []Scenario {
	t.Helper()
	dir := t.TempDir()
	out := Conformance(t, "server", "--url", url, "--requirements", revision, "-o", dir)
	return results(t, dir, out, scored(t, "server", revision))
}

// ClientConformance runs one scenario with a client. The command is split at
// spaces, and is given the URL of a server as one more argument, and the name of
// the scenario in MCP_CONFORMANCE_SCENARIO.
func ClientConformance(t testing.TB, command, scenario, revision string) Scenario {
	t.Helper()
	dir := t.TempDir()
	out := Conformance(t, "client", "--command", command, "--scenario", scenario, "--spec-version", revision, "-o", dir)
	all := results(t, dir, out, scored(t, "client", revision))
	if len(all) != 1 {
		t.Fatalf("%d results of the scenario %s, want 1:\n%s", len(all), scenario, out)
	}
	if strings.Contains(out, "Client exited with code") || strings.Contains(out, "Client timed out") {
		all[0].Checks = append(all[0].Checks, Check{ID: "client", Status: "FAILURE", Description: "The client does as the scenario wants", ErrorMessage: out})
	}
	return all[0]
}

// Passed counts the checks that succeeded.
func (s Scenario) Passed() int {
	n := 0
	for _, c := range s.Checks {
		if c.Status == "SUCCESS" {
			n++
		}
	}
	return n
}

// Failed describes the checks that failed, a line each.
func (s Scenario) Failed() []string { return s.with("FAILURE") }

// Skipped describes the checks that were skipped.
func (s Scenario) Skipped() []string { return s.with("SKIPPED") }

// Warned describes the checks that failed of what only should be.
func (s Scenario) Warned() []string { return s.with("WARNING") }

func (s Scenario) with(status string) []string {
	var lines []string
	for _, c := range s.Checks {
		if c.Status == status {
			lines = append(lines, fmt.Sprintf("%s: %s (%s): %s %.1000s", s.Name, c.ID, c.Description, c.ErrorMessage, c.Details))
		}
	}
	return lines
}

// results reads the folder that the suite wrote its results to.
func results(t testing.TB, dir, out string, scored []string) []Scenario {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		t.Fatalf("the conformance suite left no results: %v\n%s", err, out)
	}
	const timestamp = "-2026-11-21T07-12-25-529Z"
	var all []Scenario
	for _, entry := range entries {
		name := entry.Name()[:len(entry.Name())-len(timestamp)]
		name = strings.TrimPrefix(name, "server-")
		s := Scenario{Name: name, Scored: slices.Contains(scored, name)}
		b, err := os.ReadFile(filepath.Join(dir, entry.Name(), "checks.json"))
		if errors.Is(err, fs.ErrNotExist) {
			s.Checks = []Check{{ID: "ran", Status: "FAILURE", Description: "The scenario comes to its end"}}
		} else if err == nil {
			err = json.Unmarshal(b, &s.Checks)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// scored are the scenarios that a revision's requirements list for "server" or
// "client", not those that are run without being scored.
func scored(t testing.TB, kind, revision string) []string {
	t.Helper()
	file := filepath.Join(modules(t, conformanceFolder), "@modelcontextprotocol", "conformance", "requirements", revision+".yaml")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut("\n"+string(b), "\n"+kind+":\n")
	var names []string
	for line := range strings.Lines(after) {
		name, ok := strings.CutPrefix(line, "  - ")
		if !ok {
			break
		}
		names = append(names, strings.TrimSpace(name))
	}
	if len(names) == 0 {
		t.Fatalf("%s lists nothing for %s", file, kind)
	}
	return names
}

// EverythingServer builds the Go SDK's own server for the conformance suite, once
// into the user's cache, and returns its path. Over stdio it speaks both eras
// (see OnlyEra).
func EverythingServer(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "metarouter-test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := lockFile(filepath.Join(dir, "everything-server.lock"), true)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	path := filepath.Join(dir, "everything-server")
	// It does nothing if the program is up to date.
	build := exec.Command("go", "build", "-o", path, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the everything-server: %v\n%s", err, out)
	}
	return path
}

// EverythingHTTP starts it behind streamable HTTP, for the modern era if it is to
// be stateless and for the legacy one else, and returns its URL.
func EverythingHTTP(t testing.TB, stateless bool) string {
	t.Helper()
	address := FreeAddress(t)
	Start(t, EverythingServer(t), []string{"-http=" + address, fmt.Sprintf("-stateless=%v", stateless)}, t.TempDir(), nil)
	Listening(t, address)
	return "http://" + address + "/mcp"
}

// FreeAddress is an address of this machine on which nobody listened just now.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Listening waits until somebody listens there.
func Listening(t testing.TB, address string) {
	t.Helper()
	WaitFor(t, "somebody to listen on "+address, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}
