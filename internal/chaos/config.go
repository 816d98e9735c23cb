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

	"github.com/mcp-metarouter/metarouter/internal/mcptest"
)

// A configuration is the file that all routers of the run watch.
type configuration struct {
	path   string
	binary string // that plays the servers
	base   []string

	mu      sync.Mutex // guards what follows, and the file
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

// entry is a server's entry; another edit makes it another one.
func (c *configuration) entry(name string, edit int) map[string]any {
	flags := []string{"-name", name, "-tools", "echo,note", "-lifetime", "24h", "-version", fmt.Sprintf("1.0.%d", edit)}
	// They are not all alike. Of a tool that is known as "sleep" alone, the fake server
	// says that it is harmless, so that it is called again if its server dies.
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
	// Shorter than the defaults, so that a minute sees many deadlines pass.
	return map[string]any{"command": c.binary, "args": args, "timeout": "8s", "startTimeout": "20s"}
}

// names are the servers that there are now.
func (c *configuration) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.entries))
}

// restore makes the configuration what it was at first, but for versions.
func (c *configuration) restore() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.entries {
		if !slices.Contains(c.base, name) {
			delete(c.entries, name)
		}
	}
	for _, name := range c.base {
		if c.entries[name] == nil {
			c.entries[name] = c.entry(name, c.edits)
		}
	}
	return c.save(false)
}

// write puts the entries into the file: by rename as most editors do it, or in
// place and slowly, so that half of it can be read.
func (c *configuration) write(inPlace bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.save(inPlace)
}

// save is write with c.mu held.
func (c *configuration) save(inPlace bool) error {
	text, err := json.MarshalIndent(map[string]any{"mcpServers": c.entries, "metarouter": map[string]any{"mode": "direct"}}, "", "  ")
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
	beside := filepath.Join(filepath.Dir(c.path), "edited")
	if err := os.WriteFile(beside, text, 0o600); err != nil {
		return err
	}
	return os.Rename(beside, c.path)
}

// edit changes the configuration in a random way, and returns what undoes it, nil
// if it may stay.
func (c *configuration) edit(random *rand.Rand) (undo func() error, err error) {
	inPlace := random.IntN(2) == 0
	name := c.base[random.IntN(len(c.base))]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.edits++
	restore := func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.entries[name] = c.entry(name, c.edits)
		return c.save(inPlace)
	}
	switch random.IntN(5) {
	case 0: // it changes
		c.entries[name] = c.entry(name, c.edits)
	case 1: // it is removed for a while
		delete(c.entries, name)
		undo = restore
	case 2: // one is added for a while
		added := fmt.Sprintf("x%03d", c.edits)
		c.entries[added] = c.entry(added, c.edits)
		undo = func() error {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.entries, added)
			return c.save(inPlace)
		}
	case 3: // the file is broken for a while
		undo = func() error { return c.write(inPlace) }
		return undo, os.WriteFile(c.path, []byte(`{"mcpServers": {"s01": `), 0o600)
	case 4: // nothing changes but the file
	}
	return undo, c.save(inPlace)
}
