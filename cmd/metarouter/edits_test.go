package main

import "testing"

// Files that no one watches are not waited for: there is no router to look at here.
func TestSettleUnwatched(t *testing.T) {
	said := &edits{unwatched: true}
	said.settle(t.Context(), "", nil)
}
