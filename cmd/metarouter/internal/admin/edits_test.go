package admin

import "testing"

// Unwatched files are not waited for: there is no router to look at here.
func TestSettleUnwatched(t *testing.T) {
	said := &Edits{Unwatched: true}
	said.settle(t.Context(), "", nil)
}
