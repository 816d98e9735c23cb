// Package port says which program listens at an address of this machine, as far as the
// system tells. It changes nothing. All functions may be called from any goroutine.
package port

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// A Holder is a program that listens at an address. Its zero value is a program that the
// system does not name.
type Holder struct {
	PID     int
	Program string // the name of its executable file, without the folder
	Path    string // of its executable file, "" if it is not known
}

func (h Holder) String() string {
	if h.PID == 0 {
		return "another program"
	}
	if h.Program == "" {
		return fmt.Sprintf("process %d", h.PID)
	}
	return fmt.Sprintf("%s (process %d)", h.Program, h.PID)
}

// lookTime is how long the look for a holder may take.
const lookTime = 10 * time.Second

// InUse reports whether a program listens at an address such as "127.0.0.1:8787", and which.
func InUse(ctx context.Context, address string) (Holder, bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil || resolved.Port == 0 || !taken(ctx, resolved.String()) {
		return Holder{}, false
	}
	return Find(ctx, resolved), true
}

// Find returns the program that listens at an address.
func Find(ctx context.Context, address *net.TCPAddr) Holder {
	pid := listener(ctx, address)
	if pid == 0 {
		return Holder{}
	}
	return describe(ctx, pid)
}

// taken reports whether no other program can listen at an address.
func taken(ctx context.Context, address string) bool {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err == nil {
		l.Close()
		return false
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return true
	}
	var dialer net.Dialer // Windows has other errors
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// Next returns an address like the given one with a port that is free now: the first one after
// its port. It returns "" if the next ports are in use too.
func Next(ctx context.Context, address string) string {
	const most = 20
	host, port, err := net.SplitHostPort(address)
	n, notNumber := strconv.Atoi(port)
	if err != nil || notNumber != nil {
		return ""
	}
	for next := n + 1; next <= min(n+most, 65535); next++ {
		if free := net.JoinHostPort(host, strconv.Itoa(next)); !taken(ctx, free) {
			return free
		}
	}
	return ""
}
