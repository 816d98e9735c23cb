package signal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// Wait waits for all work, also for work that work has added after the end, and nothing else begins then.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, first := NewLife(), errors.New("first")
		end, added := make(chan struct{}), make(chan struct{})
		late := false
		if !l.Begin() || !l.Go(func() {
			<-l.Done()
			l.Work.Go(func() { <-added; late = true })
			<-end
		}) || l.Cause() != nil {
			t.Fatal("a new life has ended")
		}
		l.Close(first)
		l.Close(errors.New("second"))
		if l.Begin() || l.Go(func() { t.Error("work began after the end") }) || l.Cause() != first || context.Cause(l.Context()) != first {
			t.Errorf("it goes on, or ended for another cause: %v", l.Cause())
		}
		waited := make(chan struct{})
		go func() { l.Wait(); close(waited) }()
		for _, step := range []func(){func() { close(end) }, l.Work.Done, func() { close(added) }} {
			synctest.Wait()
			if IsClosed(waited) {
				t.Error("it did not wait for all work")
			}
			step()
		}
		if <-waited; !late {
			t.Error("added work has not ended")
		}
	})
}
