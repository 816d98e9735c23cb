//go:build unix

package keeper

import "time"

// Descendants of a server are known by the tree of processes (Linux; see Run), and
// by two things that they inherit whatever group or session they join: a mark in the environment,
// and a tag in a resource limit (Linux). docs/processes.md says so to users.

// A Leader is the first process of a group with its time of birth, so that a
// later process of the same id is not taken for it.
type Leader struct {
	pid  int
	born string
}

func Lead(pid int) Leader {
	s, _ := statOf(pid)
	return Leader{pid, s.born}
}

// Alive reports whether the process still exists, if only as a zombie: as long
// as it does, its id belongs to its group.
func (l Leader) Alive() bool { return l.born != "" && Lead(l.pid) == l }

// Ended reports whether the process is dead, if it was not reaped yet.
func (l Leader) Ended() bool {
	s, ok := statOf(l.pid)
	return !ok || s.born != l.born || s.dead
}

// KillMarked kills every process with a mark that begins with mark, or with its tag.
func KillMarked(mark string) { untilNone(func() int { return killOnce(mark) }) }

// untilNone calls kill, which returns how many processes it has killed, until that is
// 0: the killed ones may have forked. It gives up after some seconds.
func untilNone(kill func() int) {
	for i := range 200 {
		if kill() == 0 {
			return
		}
		time.Sleep(time.Duration(min(i+1, 20)) * time.Millisecond)
	}
}
