//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A configuration is the file that all routers of the run watch.
type configuration struct {
	path   string
	binary string // plays the servers
	base   []string

	file sync.Mutex // guards the content of the file; held while it is broken

	mu      sync.Mutex // guards the fields below
	entries map[string]any
	edits   int
}

func newConfiguration(path, binary string, servers int) *configuration {
	c := &configuration{path: path, binary: binary, entries: map[string]any{}}
	for i := range servers {
		name := fmt.Sprintf("s%02d", i+1)
		c.base = append(c.base, name)
		c.entries[name] = c.entry(name, 0)
	}
	return c
}

// entry returns the entry of a server. It differs for each edit.
func (c *configuration) entry(name string, edit int) map[string]any {
	flags := []string{"-name", name, "-tools", "echo,note", "-lifetime", "24h", "-version", fmt.Sprintf("1.0.%d", edit)}
	// The servers differ. The fake server declares a tool named just "sleep" read-only, so
	// the router repeats its call if the server dies.
	sleep := "sleep"
	switch name[len(name)-1] % 4 {
	case 0:
		flags = append(flags, "-era", "both")
	case 1:
		flags = append(flags, "-ignore-eof")
	case 2:
		sleep = `{"name":"sleep","description":"Wait, and do who knows what.","inputSchema":{"type":"object"}}`
	}
	flags = append(flags, "-tool", sleep)
	_, args := mcptest.Command(flags...)
	// Shorter than the defaults, so that many deadlines pass in a minute.
	return map[string]any{"command": c.binary, "args": args, "timeout": "8s", "startTimeout": "20s"}
}

// names returns the servers of the configuration.
func (c *configuration) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.entries))
}

// restore restores the first configuration, except for the versions of entries.
func (c *configuration) restore() error {
	c.file.Lock()
	defer c.file.Unlock()
	return c.save(false, func() {
		maps.DeleteFunc(c.entries, func(name string, _ any) bool { return !slices.Contains(c.base, name) })
		for _, name := range c.base {
			if c.entries[name] == nil {
				c.entries[name] = c.entry(name, c.edits)
			}
		}
	})
}

// whole runs do while the file is valid and does not change: a router that starts with a broken
// file exits, which is correct.
func (c *configuration) whole(do func() error) error {
	c.file.Lock()
	defer c.file.Unlock()
	return do()
}

// hold keeps the file as it is until release is called. ok is false if it is broken or being edited.
func (c *configuration) hold() (release func(), ok bool) { return c.file.Unlock, c.file.TryLock() }

// save calls change with the entries and writes them to the file: by rename, as most editors do,
// or slowly in place, so that readers see half of it. c.file must be held.
func (c *configuration) save(inPlace bool, change func()) error {
	c.mu.Lock()
	change()
	text, err := json.MarshalIndent(map[string]any{"mcpServers": c.entries, "metarouter": map[string]any{"mode": "direct"}}, "", "  ")
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if inPlace {
		f, err := os.Create(c.path)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.Write(text[:len(text)/2]); err != nil {
			return err
		}
		time.Sleep(30 * time.Millisecond)
		_, err = f.Write(text[len(text)/2:])
		return err
	}
	edited := filepath.Join(filepath.Dir(c.path), "edited")
	if err := os.WriteFile(edited, text, 0o600); err != nil {
		return err
	}
	return os.Rename(edited, c.path)
}

// edit changes the configuration at random, unless it is broken or locked. It returns a function
// that undoes the change, nil if the change may remain.
func (c *configuration) edit(random *rand.Rand) (undo func() error, done bool, err error) {
	inPlace, kind := random.IntN(2) == 0, random.IntN(5)
	name := c.base[random.IntN(len(c.base))]
	if !c.file.TryLock() {
		return nil, false, nil
	}
	if kind == 0 { // break the file for a while
		return func() error {
			defer c.file.Unlock()
			return c.save(inPlace, func() {})
		}, true, os.WriteFile(c.path, []byte(`{"mcpServers": {"s01": `), 0o600)
	}
	defer c.file.Unlock()
	later := func(change func()) func() error {
		return func() error {
			c.file.Lock()
			defer c.file.Unlock()
			return c.save(inPlace, change)
		}
	}
	err = c.save(inPlace, func() {
		c.edits++
		changed := c.entry(name, c.edits)
		put := func() { c.entries[name] = changed }
		switch kind {
		case 1: // change an entry
			put()
		case 2: // remove a server for a while
			delete(c.entries, name)
			undo = later(put)
		case 3: // add a server for a while
			name = fmt.Sprintf("x%03d", c.edits)
			changed = c.entry(name, c.edits)
			put()
			undo = later(func() { delete(c.entries, name) })
		case 4: // change the file only
		}
	})
	return undo, true, err
}
