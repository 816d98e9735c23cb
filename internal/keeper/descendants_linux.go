package keeper

import (
	"bytes"
	"hash/fnv"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// siginfoPID is where siginfo_t has the process id: after three numbers, aligned as a pointer is.
const siginfoPID = 12 + unsafe.Sizeof(uintptr(0)) - 4

// A stat is a part of /proc/PID/stat.
type stat struct {
	parent int
	dead   bool // with all threads, so that its children have another parent
	born   string
}

func statOf(pid int) (s stat, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if err != nil || len(fields) < 20 {
		return s, false
	}
	s.parent, _ = strconv.Atoi(string(fields[1]))
	state := string(fields[0])
	threads, _ := strconv.Atoi(string(fields[17]))
	// If only its first thread has ended, the process is a zombie with others.
	s.dead = state == "X" || state == "Z" && threads <= 1
	s.born = string(fields[19])
	return s, true
}

// numbersIn returns the names in a folder that are numbers.
func numbersIn(folder string) (numbers []int) {
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if n, err := strconv.Atoi(entry.Name()); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// killOnce kills the processes with a mark in the environment that begins with mark, and
// the processes with its tag.
func killOnce(mark string) (killed int) {
	needle := []byte("\x00" + MarkVariable + "=" + mark)
	random, digits, _ := bytes.Cut([]byte(mark), []byte("."))
	number, _ := strconv.ParseInt(string(bytes.TrimSuffix(digits, []byte("."))), 10, 64)
	wanted, all := tagOf(string(random), number, false), len(digits) == 0
	for _, pid := range numbersIn("/proc") {
		fd, err := unix.PidfdOpen(pid, 0) // held while we look, so that it is the one we kill
		if err != nil {
			continue
		}
		tag := tagIn(pid)
		env, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		s, ok := statOf(pid)
		is := tag == wanted || all && tag&^maxNumber == wanted&^maxNumber || bytes.Contains(append([]byte{0}, env...), needle)
		if ok && !s.dead && is && pid != os.Getpid() && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
			killed++
		}
		syscall.Close(fd)
	}
	return killed
}

// adoptOrphans makes this process the parent of all descendants that lose their parents.
func adoptOrphans() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// A tag is the soft limit RLIMIT_LOCKS of a server. Linux ignores this limit since
// 2.4.25, so programs do not change it; but children inherit it, whatever they do to
// their environment, group or session. It tells to which server an orphan belongs.
const maxNumber = 1<<24 - 1 // a tag's last bits are the process's number

// tagOf returns the tag of the numbered process of the router with this mark. A server
// that keeps its strays has another kind of tag.
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
	if unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &limit) != nil {
		return 0
	}
	return limit.Cur
}

// tagChildren gives the children that are started until untag is called the tag.
func tagChildren(tag uint64) (untag func()) {
	var before unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_LOCKS, nil, &before) != nil ||
		unix.Prlimit(0, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: tag, Max: before.Max}, nil) != nil {
		return func() {}
	}
	return func() { unix.Prlimit(0, unix.RLIMIT_LOCKS, &before, nil) }
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
// id until it is reaped. Its own children are then the next orphans. A dead child counts
// until it is reaped, since its children may have been looked at while it was their parent.
func (k *keeper) killLeft(_ []*guarded, all bool) {
	untilNone(func() (killed int) {
		k.mu.Lock()
		defer k.mu.Unlock()
		running := make(map[int64]bool)
		for _, s := range k.served {
			running[s.number&maxNumber] = true
		}
		for pid := range children() {
			server := k.served[pid]
			if server != nil && !all {
				continue
			}
			number, keeps, known := k.ownerOf(pid)
			mine := all || known && !running[number] || !known && k.tags // only a process that hides from its server has no owner
			if mine && (server != nil || !keeps) && syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
		return killed
	})
}

// children returns the children of this process, also the dead ones that were not reaped. It asks
// the kernel for a list, too: /proc may be mounted such that it hides processes.
func children() map[int]bool {
	all := make(map[int]bool)
	for _, thread := range numbersIn("/proc/self/task") {
		b, _ := os.ReadFile("/proc/self/task/" + strconv.Itoa(thread) + "/children")
		for field := range bytes.FieldsSeq(b) {
			if pid, err := strconv.Atoi(string(field)); err == nil {
				all[pid] = true
			}
		}
	}
	for _, pid := range numbersIn("/proc") {
		if s, ok := statOf(pid); ok && s.parent == os.Getpid() {
			all[pid] = true
		}
	}
	return all
}

// ownerOf returns the number of the process of a server from which the child descends, and whether the server keeps its strays, which
// get no mark; ok is false if the child has changed both its environment and its limits. mu is held.
func (k *keeper) ownerOf(pid int) (number int64, keepStrays, ok bool) {
	tag := tagIn(pid)
	for _, keep := range []bool{false, true} {
		if tag&^maxNumber == tagOf(k.mark, 0, keep) {
			return int64(tag & maxNumber), keep, true
		}
	}
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return 0, false, false
	}
	number, ok = numberIn(environ, k.mark)
	return number & maxNumber, false, ok
}
