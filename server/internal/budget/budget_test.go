package budget

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestBudget(t *testing.T) {
	q := newBudget([kinds]Bound{Scripts: {2, 3, 10, 15}})
	for i, step := range []struct {
		owner string
		bytes int
		want  error
	}{{"a", 11, ErrEach}, {"a", 4, nil}, {"a", 6, nil}, {"a", 0, ErrEach}, {"b", 6, ErrAll}, {"b", 5, nil}, {"b", 0, ErrAll}, {"c", 0, ErrAll}} {
		expect.Equal(t, q.Take(Scripts, step.owner, step.bytes), step.want, "step %d", i)
	}
	q.Release(Scripts, "a", 4)
	if q.Take(Scripts, "b", 4) != nil || q.Take(Scripts, "a", 0) == nil {
		t.Error("what is released can't be taken by another owner, or more than that can")
	}
	q.Release(Scripts, "a", 6)
	q.Release(Scripts, "b", 5)
	q.Release(Scripts, "b", 4)
	expect.Equal(t, len(q.held), 0, "%v are left", q.held)
}
