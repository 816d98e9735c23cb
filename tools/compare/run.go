//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

// A T is for measurements, in place of a testing.T, so that helpers of tests serve them too.
type T struct {
	testing.TB // nil: only the methods of T may be called
	ctx        context.Context
	name       string
	failed     bool
	cleanups   []func()
}

// Run does a part, whose failure is a failure of the whole. It returns when all cleanups of the part are done.
func (t *T) Run(name string, f func(*T)) {
	ctx, cancel := context.WithCancel(t.ctx)
	part := &T{ctx: ctx, name: strings.TrimPrefix(t.name+"/"+name, "/")}
	done := make(chan struct{})
	go func() { // of its own, so that Fatal can end it
		defer close(done)
		defer part.clean()
		defer cancel()
		f(part)
	}()
	<-done
	t.failed = t.failed || part.failed
}

// clean calls all cleanups, the last one first, also if one of them ends the goroutine.
func (t *T) clean() {
	if last := len(t.cleanups) - 1; last >= 0 {
		f := t.cleanups[last]
		t.cleanups = t.cleanups[:last]
		defer t.clean()
		f()
	}
}

func (t *T) Helper()                  {}
func (t *T) Cleanup(f func())         { t.cleanups = append(t.cleanups, f) }
func (t *T) Context() context.Context { return t.ctx }
func (t *T) Failed() bool             { return t.failed }

func (t *T) TempDir() string {
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (t *T) Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, t.name+": "+format+"\n", args...)
}

func (t *T) Errorf(format string, args ...any) {
	t.failed = true
	t.Logf(format, args...)
}

func (t *T) Error(args ...any) { t.Errorf("%s", fmt.Sprint(args...)) }

func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

func (t *T) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }

// Skip ends a part that cannot be done here.
func (t *T) Skip(args ...any) {
	t.Logf("left out: %s", fmt.Sprint(args...))
	runtime.Goexit()
}
