package supervisor

import (
	"testing"
	"time"
)

func TestHistory(t *testing.T) {
	begin := time.Now()
	for name, steps := range map[string][]struct {
		at, ready time.Duration
		immediate bool
		loop      bool
	}{
		"a healthy server ends now and then": {
			{0, time.Hour, true, false}, {time.Minute + 1, time.Minute, true, false}, {3 * time.Minute, time.Minute, true, false},
		},
		"the first end after a short session": {{0, time.Second, true, false}, {time.Second, time.Second, false, false}},
		"five in a minute, healthy or not": {
			{0, 10 * time.Second, true, false}, {11 * time.Second, 10 * time.Second, true, false}, {22 * time.Second, 10 * time.Second, true, false},
			{33 * time.Second, 10 * time.Second, true, false}, {44 * time.Second, 10 * time.Second, true, true},
		},
		"five in a row that take long to fail": {
			{0, 0, false, false}, {2 * time.Minute, 0, false, false}, {4 * time.Minute, 0, false, false},
			{6 * time.Minute, 0, false, false}, {8 * time.Minute, 0, false, true},
			{13 * time.Minute, 0, false, true}, // one try, and failed again
			{18 * time.Minute, 20 * time.Second, true, false},
		},
	} {
		h := newHistory()
		for i, step := range steps {
			wait, ok := h.failed(begin.Add(step.at), step.ready)
			if ok == step.loop || ok && (wait == 0) != step.immediate || wait > 8*time.Second {
				t.Errorf("%s: failure %d: wait %v, %v", name, i+1, wait, ok)
			}
		}
	}
}
