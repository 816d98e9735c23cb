package tools

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A script that asks its next question before the client comes back: the client learns of it at once.
func TestNextQuestionBeforeResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, begun := new(heldScript), time.Now()
		h.add(1)
		for range 2 {
			_, err := h.await(t.Context(), resumeWait, "resume")
			expect.OK(t, err)
			h.add(-1)
			h.add(1)
		}
		if waited := time.Since(begun); waited > 0 {
			t.Errorf("the client waited for %v", waited)
		}
		_, _ = h.await(t.Context(), resumeWait, "resume")
		if _, err := h.await(t.Context(), resumeWait, "resume"); err != nil || time.Since(begun) != resumeWait {
			t.Errorf("without another question, the client was answered after %v (%v), want %v", time.Since(begun), err, resumeWait)
		}
	})
}
