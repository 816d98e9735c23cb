//go:build !linux

package port

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// listener returns the process that listens at an address, 0 if it is not known. It asks the
// program of the system that knows.
func listener(ctx context.Context, address *net.TCPAddr) int {
	port := strconv.Itoa(address.Port)
	if runtime.GOOS == "windows" {
		out, _ := exec.CommandContext(ctx, "netstat", "-ano", "-p", "TCP").Output()
		for line := range strings.Lines(string(out)) {
			columns := strings.Fields(line) // protocol, ours, theirs, state, process
			if len(columns) == 5 && strings.HasSuffix(columns[1], ":"+port) && strings.HasSuffix(columns[2], ":0") {
				return number(columns[4])
			}
		}
		return 0
	}
	out, _ := exec.CommandContext(ctx, "lsof", "-nP", "-iTCP:"+port, "-sTCP:LISTEN", "-Fp").Output()
	for line := range strings.Lines(string(out)) {
		if pid, ok := strings.CutPrefix(line, "p"); ok {
			return number(pid)
		}
	}
	return 0
}

// describe names a process.
func describe(ctx context.Context, pid int) Holder {
	h := Holder{PID: pid}
	if runtime.GOOS == "windows" {
		out, _ := exec.CommandContext(ctx, "tasklist", "/FO", "CSV", "/NH", "/FI", "PID eq "+strconv.Itoa(pid)).Output()
		if name, _, ok := strings.Cut(strings.TrimPrefix(string(out), `"`), `"`); ok {
			h.Program = name
		}
		return h
	}
	out, _ := exec.CommandContext(ctx, "ps", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
	if path := strings.TrimSpace(string(out)); path != "" {
		h.Path, h.Program = path, filepath.Base(path)
	}
	return h
}

func number(text string) int {
	n, _ := strconv.Atoi(strings.TrimSpace(text))
	return n
}
