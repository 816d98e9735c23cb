package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// What the start has mapped of the program is not kept, and comes back when it is needed.
func TestUnmapStart(t *testing.T) {
	mapped := func() int {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "RssFile:")
		kB, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			t.Fatal(err)
		}
		return kB
	}
	before := mapped()
	unmapStart()
	if after := mapped(); after > before*3/4 {
		t.Errorf("%d kB of files are mapped, after %d", after, before)
	}
}
