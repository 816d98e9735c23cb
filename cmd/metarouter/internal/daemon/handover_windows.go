package daemon

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
)

// CanShare says whether processes can hand over their streams here.
const CanShare = false

// Inherited returns none.
func Inherited(int) *os.File { return nil }

var errNoHandover = errors.New("processes can't hand over their streams here")

func sendFiles(*net.UnixConn, []*os.File) error           { return errNoHandover }
func receiveFiles(*net.UnixConn, int) ([]*os.File, error) { return nil, errNoHandover }
func closeAll([]*os.File)                                 {}
func mapped(*os.File, int) ([]byte, error)                { return nil, errNoHandover }
func unmap([]byte)                                        {}
func detach(*exec.Cmd)                                    {}

func (p Place) lockFile() string { return "" }

// tidy removes the folder unless it has sockets.
func (p Place) tidy() {
	if p.dir != "" {
		os.Remove(p.dir)
	}
}

func (p Place) lock(context.Context) (unlock func(), err error) { return nil, errNoHandover }

// isPrivate trusts that the user's own folders are closed to others: the mode does not
// say so here.
func isPrivate(fs.FileInfo) bool { return true }

// NewMemory fails: processes can't share memory here.
func NewMemory(int) ([]byte, *os.File, error) { return nil, nil, errNoHandover }
