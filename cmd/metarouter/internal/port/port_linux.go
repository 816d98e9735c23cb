package port

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

const maxTable = 16 << 20 // bytes of a table of sockets

// listener returns the process that listens at an address, 0 if it is not known: other
// users' processes do not show their sockets.
func listener(ctx context.Context, address *net.TCPAddr) int {
	var inodes []string
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := safefile.Read(table, maxTable)
		if err == nil {
			inodes = append(inodes, listening(data, address)...)
		}
	}
	if len(inodes) == 0 {
		return 0
	}
	folders, _ := filepath.Glob("/proc/[0-9]*/fd")
	for _, folder := range folders {
		if ctx.Err() != nil {
			return 0
		}
		files, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, f := range files {
			target, err := os.Readlink(filepath.Join(folder, f.Name()))
			inode, isSocket := strings.CutPrefix(target, "socket:[")
			if err == nil && isSocket && slices.Contains(inodes, strings.TrimSuffix(inode, "]")) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
				return pid
			}
		}
	}
	return 0
}

// listening returns the inodes of the sockets of a table that listen at the address, or at
// its port on all addresses.
func listening(table []byte, address *net.TCPAddr) (inodes []string) {
	const listen = "0A"
	lines := bufio.NewScanner(bytes.NewReader(table))
	for lines.Scan() {
		columns := strings.Fields(lines.Text())
		if len(columns) < 10 || columns[3] != listen {
			continue
		}
		host, port, _ := strings.Cut(columns[1], ":")
		n, err := strconv.ParseUint(port, 16, 16)
		ip := addressOf(host)
		if err == nil && int(n) == address.Port && (ip.IsUnspecified() || ip.Equal(address.IP) || len(address.IP) == 0 || address.IP.IsUnspecified()) {
			inodes = append(inodes, columns[9])
		}
	}
	return inodes
}

// addressOf reads an IP address of a table: words of four bytes in the order of the machine,
// which is little-endian wherever this program is built for.
func addressOf(text string) net.IP {
	b, err := hex.DecodeString(text)
	if err != nil || len(b)%4 != 0 {
		return nil
	}
	for word := range slices.Chunk(b, 4) {
		slices.Reverse(word)
	}
	return b
}

// describe names a process.
func describe(_ context.Context, pid int) Holder {
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	h := Holder{PID: pid}
	if path, err := os.Readlink(filepath.Join(folder, "exe")); err == nil {
		h.Path = strings.TrimSuffix(path, " (deleted)")
		h.Program = filepath.Base(h.Path)
		return h
	}
	if name, err := os.ReadFile(filepath.Join(folder, "comm")); err == nil {
		h.Program = strings.TrimSpace(string(name))
	}
	return h
}
