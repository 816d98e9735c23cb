package usage

import (
	"io/fs"
	"os"
	"testing"
	"time"
)

// While the disk does not answer, the store does.
func TestSlowDisk(t *testing.T) {
	s := open(t, t.TempDir())
	call(s, "a", "send mail", "x:y", time.Now())
	opening, answer := make(chan struct{}), make(chan struct{})
	s.open = func(string) (*os.File, error) {
		close(opening)
		<-answer
		return nil, fs.ErrNotExist
	}
	saved := make(chan error, 1)
	go func() { saved <- s.save() }()
	<-opening
	for range 1000 {
		call(s, "b", "send mail", "x:y", time.Now())
		want(t, s, "send mail", "x:y", time.Now(), 0.6)
		s.Tools()
	}
	close(answer)
	if err := <-saved; err != nil {
		t.Error(err)
	}
}
