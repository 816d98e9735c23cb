package process

import (
	"bytes"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A leader is the first process of a group, held by a descriptor: a later process
// with its id is not taken for it. On Linux before 5.3 its time of birth serves.
type leader struct {
	fd   int // -1 without descriptors
	pid  int
	born string
}

func lead(pid int) leader {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		fd = -1
	}
	s, _ := statOf(pid)
	return leader{fd, pid, s.born}
}

// alive reports whether the process still exists, if only as a zombie: as long
// as it does, its id belongs to its group.
func (l leader) alive() bool {
	if l.fd > 0 {
		return unix.PidfdSendSignal(l.fd, 0, nil, 0) == nil
	}
	s, ok := statOf(l.pid)
	return ok && s.born == l.born
}

// ended reports whether the process is dead, if it was not reaped yet.
func (l leader) ended() bool {
	s, ok := statOf(l.pid)
	return !ok || s.born != l.born || s.dead
}

func (l leader) close() {
	if l.fd > 0 {
		unix.Close(l.fd)
	}
}

// A stat is a part of /proc/PID/stat.
type stat struct {
	parent int
	dead   bool // a zombie
	born   string
}

func statOf(pid int) (s stat, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if err != nil || len(fields) < 20 {
		return s, false
	}
	s.parent, _ = strconv.Atoi(fields[1])
	s.dead, s.born = fields[0] == "Z" || fields[0] == "X", fields[19]
	return s, true
}

// processes returns the ids of all processes but this one.
func processes() (pids []int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killOnce kills the processes whose environment has a mark that begins with mark, and
// those with its tag.
func killOnce(mark string) (killed int) {
	needle := []byte("\x00" + MarkVariable + "=" + mark)
	random, digits, _ := strings.Cut(mark, ".")
	number, _ := strconv.ParseInt(strings.TrimSuffix(digits, "."), 10, 64)
	wanted, all := tagOf(random, number, false), digits == ""
	for _, pid := range processes() {
		fd, err := unix.PidfdOpen(pid, 0) // held while we look, so that it is the one we kill
		if err != nil {
			continue
		}
		tag := tagIn(pid)
		env, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		s, ok := statOf(pid)
		is := tag == wanted || all && tag&^maxNumber == wanted&^maxNumber || bytes.Contains(append([]byte{0}, env...), needle)
		if ok && !s.dead && is && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
			killed++
		}
		unix.Close(fd)
	}
	return killed
}

// adoptOrphans makes this process the parent of all descendants whose parents die.
func adoptOrphans() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// A tag is the soft limit RLIMIT_LOCKS of a server. Linux ignores this limit since
// 2.4.25, so programs do not change it; but children inherit it, whatever they do to
// their environment, group or session. It tells to which server an orphan belongs.
const (
	rlimitLocks = 10
	maxNumber   = 1<<24 - 1 // a tag's last bits are the process's number
)

// tagOf returns the tag of the numbered process of the router with this mark. A server
// whose strays are kept has another kind of tag.
func tagOf(mark string, number int64, keepStrays bool) uint64 {
	h := fnv.New32a()
	h.Write([]byte(mark))
	tag := uint64(1)<<62 | uint64(h.Sum32())<<24 | uint64(number)&maxNumber
	if keepStrays {
		tag |= 1 << 61
	}
	return tag
}

// tagIn returns the tag of a process, or another number.
func tagIn(pid int) uint64 {
	var limit unix.Rlimit
	if unix.Prlimit(pid, rlimitLocks, nil, &limit) != nil {
		return 0
	}
	return limit.Cur
}

// tagChildren gives the children that are started until untag is called the tag.
func tagChildren(tag uint64) (untag func()) {
	var before unix.Rlimit
	if unix.Getrlimit(rlimitLocks, &before) != nil ||
		unix.Setrlimit(rlimitLocks, &unix.Rlimit{Cur: tag, Max: before.Max}) != nil {
		return func() {}
	}
	return func() { unix.Setrlimit(rlimitLocks, &before) }
}

// canTag reports whether the system keeps tags.
func canTag() bool {
	untag := tagChildren(1 << 62)
	defer untag()
	return tagIn(os.Getpid()) == 1<<62
}

// killLeft kills the descendants of servers that have ended, or all if the router has.
//
// Only orphans, which are children of this process, are killed: such a child keeps its
// id until it is reaped. Its own children are then the next orphans.
func (k *keeper) killLeft(_ []*served, all bool) {
	untilNone(func() (killed int) {
		scanned := processes()
		k.mu.Lock()
		defer k.mu.Unlock()
		running := make(map[int64]bool)
		for _, s := range k.served {
			running[s.number&maxNumber] = true
		}
		for pid := range children(scanned) {
			server := k.served[pid]
			if server != nil && !all {
				continue
			}
			number, known := k.ownerOf(pid)
			spared := server == nil && known && k.spared[number]
			mine := all || known && !running[number] || !known && k.tags // only a process that hides from its server has no owner
			if mine && !spared && unix.Kill(pid, unix.SIGKILL) == nil {
				killed++
			}
		}
		return killed
	})
}

// children returns the living ones of the processes that are children of this one, and
// those that the kernel lists: /proc may be mounted such that it hides others.
func children(scanned []int) map[int]bool {
	all := make(map[int]bool)
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		b, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil {
				all[pid] = true
			}
		}
	}
	for _, pid := range scanned {
		if s, ok := statOf(pid); ok && s.parent == os.Getpid() && !s.dead {
			all[pid] = true
		} else if ok {
			delete(all, pid)
		}
	}
	return all
}

// ownerOf returns the number of the process of a server from which the child descends;
// ok is false if the child has changed both its environment and its limits. mu is held.
func (k *keeper) ownerOf(pid int) (number int64, ok bool) {
	tag := tagIn(pid)
	for _, keep := range []bool{false, true} {
		if tag&^maxNumber == tagOf(k.mark, 0, keep) {
			return int64(tag & maxNumber), true
		}
	}
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return 0, false
	}
	number, ok = numberIn(environ, k.mark)
	return number & maxNumber, ok
}
