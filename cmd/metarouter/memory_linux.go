package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// unmapStart gives back the pages of the program itself that only its start has needed:
// they are mapped, and count as its memory, until the system is short of it. What is
// needed again comes back from the system's cache of files at the next touch.
func unmapStart() {
	program, err := os.Executable()
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	var begin, end uint64 // of a mapping of the program's file that is not written to; none if end is 0
	for s := bufio.NewScanner(f); s.Scan(); {
		words := strings.Fields(s.Text())
		switch {
		case len(words) >= 5 && !strings.HasSuffix(words[0], ":"):
			from, to, _ := strings.Cut(words[0], "-")
			begin, _ = strconv.ParseUint(from, 16, 64)
			end, _ = strconv.ParseUint(to, 16, 64)
			if strings.Contains(words[1], "w") || words[len(words)-1] != program {
				end = 0
			}
		case len(words) >= 2 && (words[0] == "Anonymous:" || words[0] == "Swap:") && words[1] != "0":
			end = 0 // relocated: not as the file has it
		case words[0] == "VmFlags:" && end > begin:
			syscall.Syscall(syscall.SYS_MADVISE, uintptr(begin), uintptr(end-begin), syscall.MADV_DONTNEED)
		}
	}
}
