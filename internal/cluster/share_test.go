package cluster

import "testing"

// A node that only observes has nothing that could serve another one.
func TestObserverServesNone(t *testing.T) {
	if (&member{node: New(Options{})}).shares("") {
		t.Error("it takes a stream")
	}
}
