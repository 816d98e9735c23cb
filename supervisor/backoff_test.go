package supervisor

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestHistory(t *testing.T) {
	begin := time.Now()
	for name, steps := range map[string][]struct {
		at, ready time.Duration
		immediate bool
		loop      bool
		served    int
	}{
		"a healthy server ends now and then": {
			{0, time.Hour, true, false, 0}, {time.Minute + 1, time.Minute, true, false, 0}, {3 * time.Minute, time.Minute, true, false, 0},
		},
		"the first end after a short session": {{0, time.Second, true, false, 0}, {time.Second, time.Second, false, false, 0}},
		"five in a minute, healthy or not": {
			{0, 10 * time.Second, true, false, 0}, {11 * time.Second, 10 * time.Second, true, false, 0}, {22 * time.Second, 10 * time.Second, true, false, 0},
			{33 * time.Second, 10 * time.Second, true, false, 0}, {44 * time.Second, 10 * time.Second, true, true, 0},
		},
		"five in a row that take long to fail": {
			{0, 0, false, false, 0}, {2 * time.Minute, 0, false, false, 0}, {4 * time.Minute, 0, false, false, 0},
			{6 * time.Minute, 0, false, false, 0}, {8 * time.Minute, 0, false, true, 0},
			{13 * time.Minute, 0, false, true, 0}, // one try, and failed again
			{18 * time.Minute, 20 * time.Second, true, false, 0},
		},
		"useful, and killed again and again": {
			{0, 1, true, false, 9}, {time.Second, 1, false, false, 9}, {2 * time.Second, 1, false, false, 9},
			{3 * time.Second, 1, false, false, 9}, {4 * time.Second, 1, false, false, 9}, {5 * time.Second, time.Second, true, false, 9},
		},
		"useful, and then each call kills it": {
			{0, time.Second, true, false, 9}, {time.Second, time.Second, false, false, 0}, {2 * time.Second, time.Second, false, false, 0},
			{3 * time.Second, time.Second, false, false, 0}, {4 * time.Second, time.Second, false, true, 0},
			{20 * time.Second, time.Second, false, true, 0}, {40 * time.Second, 1, false, false, 1}, // a call was answered
			{45 * time.Second, time.Second, false, false, 0},
		},
	} {
		h := newHistory()
		for i, step := range steps {
			wait, ok := h.failed(begin.Add(step.at), ended{step.ready, step.served})
			if ok == step.loop || ok && (wait == 0) != step.immediate || wait > 8*time.Second {
				t.Errorf("%s: failure %d: wait %v, %v", name, i+1, wait, ok)
			}
		}
	}
}

// A failure is news once, and again if it is another one, or after the server worked.
func TestNews(t *testing.T) {
	h := newHistory()
	exited := func(code int, after time.Duration) *status.Fault {
		return &status.Fault{Kind: status.Exited, Code: code, After: after, Said: []string{after.String()}}
	}
	for i, step := range []struct {
		fault *status.Fault
		over  bool
		last  ended
		news  bool
	}{
		{exited(1, 1), false, ended{}, true}, {exited(1, 2), false, ended{}, false}, {exited(1, 3), false, ended{ready: 1}, false},
		{exited(1, 4), true, ended{}, true}, {exited(1, 5), true, ended{}, false}, {exited(2, 6), true, ended{}, true},
		{exited(2, 7), false, ended{ready: time.Hour}, true}, {exited(2, 7), false, ended{served: 1}, true},
	} {
		h.failed(time.Now(), step.last)
		expect.Equal(t, h.level(zap.ErrorLevel, step.fault, step.over) == zap.ErrorLevel, step.news, "step %d: news", i+1)
	}
	h.reset()
	expect.Equal(t, h.level(zap.WarnLevel, exited(2, 7), false), zap.WarnLevel, "the first failure of an edited entry is no news")
}
