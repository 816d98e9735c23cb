package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/daemon"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/early"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// A waitState is what the program needs in order to go on after a waiter: see package early.
// It is kept in a file in memory.
type waitState struct {
	Client  daemon.ClientState
	Program string // of the terms: the program's file may have been replaced meanwhile
	Profile string
	Files   []string // of the configuration
	Named   bool
	Text    []byte // of the only one of Files, in case that it can't be used any more; nil if it did not exist

	left  daemon.Resumed
	taken bool       // left was used
	files []*os.File // the journal's memory and the two ends of the stage
}

const (
	maxWaitText  = 4 << 20 // bytes of a configuration; with a larger one, the process keeps its memory
	maxWaitState = 8 << 20 // bytes of a state, which has the text as base64
)

// resumedWait returns what a waiter has left; nil if there was none before this program.
var resumedWait = sync.OnceValue(func() *waitState {
	r, ok := early.Resumed()
	if !ok || len(r.Files) != 4 {
		return nil
	}
	var files []*os.File
	for _, fd := range r.Files {
		files = append(files, os.NewFile(uintptr(fd), "kept"))
	}
	defer files[3].Close()
	var w waitState
	if err := json.NewDecoder(io.NewSectionReader(files[3], 0, maxWaitState)).Decode(&w); err != nil {
		return nil
	}
	w.files = files[:3]
	w.left = daemon.Resumed{State: w.Client, Lost: r.Lost}
	if r.Text != "" {
		w.left.Err = errors.New(r.Text)
	}
	return &w
})

// take returns what is left of the client the first time, and then nil.
func (w *waitState) take() *daemon.Resumed {
	if w.taken {
		return nil
	}
	w.taken = true
	return &w.left
}

// config returns the configuration as the files are now, or as they were.
func (w *waitState) config(env *environment) (c config.Config, named bool, profile string, err error) {
	c, usable, err := readConfig(env, w.Files, w.Named)
	if err != nil || !usable {
		c, err = config.Load()
		if w.Text != nil {
			c, err = config.Read(w.Files[0], w.Text)
		}
		c.Files = w.Files
	}
	return c, w.Named, w.Profile, err
}

// clientFiles returns a new journal's memory, its file and a stage, or those that were kept.
func clientFiles() ([]byte, *os.File, *pipe.Stage, error) {
	w := resumedWait()
	if w == nil {
		memory, file, err := daemon.NewMemory(daemon.JournalSize)
		if err != nil {
			return nil, nil, nil, err
		}
		stage, err := pipe.NewStage()
		return memory, file, stage, err
	}
	memory, err := daemon.MemoryOf(w.files[0], daemon.JournalSize)
	if err != nil {
		return nil, nil, nil, err
	}
	stage, err := pipe.StageOf(w.files[1], w.files[2])
	return memory, w.files[0], stage, err
}

// waitInLittleMemory returns the function by which a client's process executes the waiter,
// nil where that is not possible: a configuration of several files can't be kept.
func waitInLittleMemory(env *environment, c *config.Config, named bool, profile string, files []*os.File, log *zap.Logger) func(daemon.Waiting, func() bool) {
	if len(c.Files) != 1 {
		return nil
	}
	return func(w daemon.Waiting, stay func() bool) {
		state := waitState{Client: w.State, Program: program(), Profile: profile, Files: c.Files, Named: named}
		err := state.execute(env, w, files, stay)
		log.Debug("the process waits with all of its memory", zap.Error(err))
	}
}

func (s waitState) execute(env *environment, w daemon.Waiting, files []*os.File, stay func() bool) (err error) {
	if s.Text, err = safefile.Read(s.Files[0], maxWaitText); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	kept, err := daemon.StateFile()
	if err != nil {
		return err
	}
	defer kept.Close()
	if err := json.NewEncoder(kept).Encode(s); err != nil {
		return fmt.Errorf("keep the state: %w", err)
	}
	waiter := early.Waiter{
		Debug: env.debug, Lock: w.Lock, Socket: w.Socket,
		Leave: daemon.WordLeave, Reload: daemon.WordReload, Bye: daemon.WordBye,
	}
	if waiter.Conn, err = descriptor(w.Conn); err != nil {
		return err
	}
	for _, f := range append(slices.Clip(files), kept) {
		fd, err := descriptor(f)
		if err != nil {
			return err
		}
		waiter.Files = append(waiter.Files, fd)
	}
	environ := os.Environ()
	if token := secret.Token(); token != "" {
		environ = append(environ, secret.TokenVariable+"="+token)
	}
	return early.Wait(waiter, environ, stay)
}

// descriptor returns the descriptor of a file, which stays as it is.
func descriptor(f syscall.Conn) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = raw.Control(func(d uintptr) { fd = int(d) })
	return fd, err
}
