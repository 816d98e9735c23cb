//go:build unix

package e2e

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// Bounds of what a package allocates when the program starts, in bytes. Every process of the program
// pays for it: a router, the processes that wait for a shared one, the guard.
const (
	maxInitOurs   = 16 << 10
	maxInitOthers = 128 << 10
	maxInitAll    = 3<<20 + 3<<18 // a garbage collection would come at 4 MiB
)

// heavyInits are packages that cannot be had without what they do at the start.
var heavyInits = map[string]int{
	"github.com/santhosh-tekuri/jsonschema/v6":     2 << 20, // compiles the schemas of all drafts
	"github.com/blevesearch/bleve/v2/index/scorch": 5 << 18, // makes tables for fuzzy search
}

var initTrace = regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) bytes, \d+ allocs$`)

// What a package needs is made when it is first used, not when the program starts.
func TestInitialisationIsSmall(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	cmd := exec.Command(metarouter, "version")
	cmd.Env = append(cmd.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	expect.OK(t, err, "%s", out)
	packages := initTrace.FindAllStringSubmatch(string(out), -1)
	if len(packages) < 50 {
		t.Fatalf("only %d packages are initialised:\n%s", len(packages), out)
	}
	sum := 0
	for _, p := range packages {
		allowed := maxInitOthers
		if heavy, ok := heavyInits[p[1]]; ok {
			allowed = heavy
		} else if p[1] == "main" || strings.HasPrefix(p[1], "github.com/mcp-metarouter/") {
			allowed = maxInitOurs
		}
		bytes, err := strconv.Atoi(p[2])
		if err != nil || bytes > allowed {
			t.Errorf("package %s allocates %s bytes when the program starts, more than %d: make it when it is first used (see internal/lazy)", p[1], p[2], allowed)
		}
		sum += bytes
	}
	if sum > maxInitAll {
		t.Errorf("all packages allocate %d bytes when the program starts, more than %d", sum, maxInitAll)
	}
}
