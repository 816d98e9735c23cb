package vault

import (
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/layer"
)

// What several processes set at the same time is all there.
func TestProcesses(t *testing.T) {
	layer.Integration(t)
	folder := t.TempDir()
	var group sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		group.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "VAULT_TEST_WRITER="+folder, "VAULT_TEST_NAME="+name)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	group.Wait()
	names, err := New(folder).Names()
	if err != nil || len(names) != 30 {
		t.Errorf("%d names, %v", len(names), err)
	}
	if value, err := New(folder).Get(t.Context(), "b-7"); err != nil || value != "value" {
		t.Errorf("%q, %v", value, err)
	}
}
