package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A Scenario is one scenario of the official conformance suite, with its results.
type Scenario struct {
	Name   string
	Scored bool // the revision's requirements of a server list it
	Checks []Check
}

// A Check is one check of a scenario. Status is SUCCESS, FAILURE, WARNING, SKIPPED or INFO.
type Check struct {
	ID, Name, Description, Status, ErrorMessage string

	Details json.RawMessage
}

// Conformance runs the official suite, locked in testdata/conformance, with these arguments,
// and returns its output.
func Conformance(t testing.TB, args ...string) string {
	t.Helper()
	script := filepath.Join(modules(t, conformanceFolder), "@modelcontextprotocol", "conformance", "dist", "index.js")
	cmd := exec.Command(Node22(t), append([]string{script}, args...)...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	// Status 1 means that a check failed. The results have the details.
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("run the conformance suite: %v\n%s", err, out)
	}
	return string(out)
}

const conformanceFolder = "test/external/testdata/conformance"

// ServerConformance runs all scenarios that a revision requires of a server.
func ServerConformance(t testing.TB, url, revision string) []Scenario {
	t.Helper()
	dir := t.TempDir()
	out := Conformance(t, "server", "--url", url, "--requirements", revision, "-o", dir)
	all, scored := results(t, dir, out), scored(t, revision)
	for i, s := range all {
		all[i].Scored = slices.Contains(scored, s.Name)
	}
	return all
}

// ClientConformance runs one scenario with a client, also if the revision does not have it. The
// command is split at spaces; it gets the URL of a server as its last argument and the name of the
// scenario in MCP_CONFORMANCE_SCENARIO. A client that ends with another status than 0, or not
// within 3 minutes, has failed.
func ClientConformance(t testing.TB, command, scenario, revision string) Scenario {
	t.Helper()
	dir := t.TempDir()
	out := Conformance(t, "client", "--command", command, "--scenario", scenario, "--spec-version", revision,
		"--force", "--timeout", "180000", "-o", dir)
	all := results(t, dir, out)
	if len(all) != 1 {
		t.Fatalf("%d results of the scenario %s, want 1:\n%s", len(all), scenario, out)
	}
	if strings.Contains(out, "\nClient exited with code") || strings.Contains(out, "\nClient timed out") {
		all[0].Checks = append(all[0].Checks, Check{ID: "client", Status: "FAILURE", Description: "The client does as the scenario wants", ErrorMessage: out})
	}
	return all[0]
}

// Passed returns the number of checks that succeeded.
func (s Scenario) Passed() int {
	n := 0
	for _, c := range s.Checks {
		if c.Status == "SUCCESS" {
			n++
		}
	}
	return n
}

// Failed returns a line for each check that failed.
func (s Scenario) Failed() []string { return s.with("FAILURE") }

// Skipped returns a line for each check that was skipped.
func (s Scenario) Skipped() []string { return s.with("SKIPPED") }

// Warned returns a line for each failed check of a recommendation.
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

// results reads the suite's results from its output folder.
func results(t testing.TB, dir, out string) []Scenario {
	t.Helper()
	const timestamp = "-2026-11-21T07-12-25-529Z"
	var all []Scenario
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		// The folder of auth/x is auth/x-TIMESTAMP. Those of scenarios are empty, or have files only.
		if err != nil || !entry.IsDir() || len(entry.Name()) < len(timestamp) || !strings.HasSuffix(path, "Z") {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		s := Scenario{Name: strings.TrimPrefix(name[:len(name)-len(timestamp)], "server-")}
		b, err := os.ReadFile(filepath.Join(path, "checks.json"))
		if errors.Is(err, fs.ErrNotExist) {
			s.Checks = []Check{{ID: "ran", Status: "FAILURE", Description: "The scenario comes to its end"}}
		} else if err != nil {
			return err
		} else if err := json.Unmarshal(b, &s.Checks); err != nil {
			return err
		}
		all = append(all, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("the conformance suite left no results:\n%s", out)
	}
	return all
}

// scored returns the scenarios that a revision's requirements list for servers.
func scored(t testing.TB, revision string) []string {
	t.Helper()
	file := filepath.Join(modules(t, conformanceFolder), "@modelcontextprotocol", "conformance", "requirements", revision+".yaml")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut("\n"+string(b), "\nserver:\n")
	var names []string
	for line := range strings.Lines(after) {
		name, ok := strings.CutPrefix(line, "  - ")
		if !ok {
			break
		}
		names = append(names, strings.TrimSpace(name))
	}
	if len(names) == 0 {
		t.Fatalf("%s lists nothing for servers", file)
	}
	return names
}
