//go:build unix

package supervisor

import "time"

// killMarked kills every process whose environment bears the mark, wherever it
// has gone, and goes on until there is none: one may fork while we look.
func killMarked(mark string) {
	needle := []byte("\x00" + markVariable + "=" + mark)
	for range 50 {
		if killOnce(needle) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
