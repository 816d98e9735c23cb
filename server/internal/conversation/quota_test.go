package conversation

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestQuota(t *testing.T) {
	q := NewQuota(2, 3, 10, 15)
	for i, step := range []struct {
		owner string
		bytes int
		want  bool
	}{{"a", 11, false}, {"a", 4, true}, {"a", 6, true}, {"a", 0, false}, {"b", 6, false}, {"b", 5, true}, {"b", 0, false}, {"c", 0, false}} {
		expect.Equal(t, q.Take(step.owner, step.bytes), step.want, "step %d", i)
	}
	q.Release("a", 4)
	if !q.Take("b", 4) || q.Take("a", 0) {
		t.Error("what is released can't be taken by another owner, or more than that can")
	}
	q.Release("a", 6)
	q.Release("b", 5)
	q.Release("b", 4)
	if q.used != (amount{}) || len(q.owned) != 0 {
		t.Errorf("%v are left, of %d owners", q.used, len(q.owned))
	}
}
