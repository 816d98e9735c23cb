package keeper

import (
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// ContainerTimeout is how long a command that stops a container may take. Then it is killed.
const ContainerTimeout = 8 * time.Second

// A Container says how to stop the container that a server's process is the client of. The container is no
// descendant of its client, and may outlive it.
type Container struct {
	File     string     // to which the client writes the container's ID
	Remove   []string   // files and empty folders to be removed at the end, in this order
	Path     string     // of the client
	Dir      string     // in which its commands run
	Env      []string   // of its commands
	Commands [][]string // the arguments of each; the container's ID comes after them
}

// Stop returns the command lines that stop the container, each with the program's name. The
// list is empty if the file has no ID, since there is no container then.
func (c *Container) Stop() (lines [][]string) {
	if c == nil {
		return nil
	}
	id := c.id()
	for _, args := range c.Commands {
		if id != "" {
			lines = append(lines, slices.Concat([]string{c.Path}, args, []string{id}))
		}
	}
	return lines
}

// idDigits is the length of a container's ID. Docker takes a shorter text for a name, or for the beginning of any ID.
const idDigits = 64

// id returns the ID in the file, "" if it has no ID.
func (c *Container) id() string {
	text, _ := safefile.ReadOwn(c.File, idDigits+int64(len("\r\n")))
	id := strings.TrimSpace(string(text))
	if len(id) != idDigits || strings.Trim(id, "0123456789abcdef") != "" {
		return ""
	}
	return id
}

// Discard removes the files and folders of Remove.
func (c *Container) Discard() {
	if c == nil {
		return
	}
	for _, path := range c.Remove {
		os.Remove(path)
	}
}
