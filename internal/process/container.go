package process

import (
	"context"
	"os/exec"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/keeper"
)

// A Container says how to stop the container that a process is the client of.
type Container = keeper.Container

// stopContainer stops a container as the guard process does, if that can't.
func stopContainer(c *Container) {
	for _, line := range c.Stop() {
		ctx, cancel := context.WithTimeout(context.Background(), keeper.ContainerTimeout)
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.Dir, cmd.Env, cmd.WaitDelay = c.Dir, c.Env, time.Second
		detach(cmd)
		_ = cmd.Run() // fails if the container has ended
		cancel()
	}
	c.Discard()
}
