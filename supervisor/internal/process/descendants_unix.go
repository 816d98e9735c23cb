//go:build unix

package process

import "time"

// A descendant is a process with the mark of a server's process in its environment.
// Processes inherit the environment whatever group or session they join, so the mark
// finds daemons, and also a browser that a server opened. docs/processes.md says so to
// users.

// killMarked kills every process whose environment has a mark that begins with mark.
// It looks again until it finds no more, since a process may fork meanwhile.
func killMarked(mark string) {
	needle := []byte("\x00" + MarkVariable + "=" + mark)
	for range 50 {
		if killOnce(needle) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
