//go:build unix

package process

import (
	"os"

	"github.com/mcp-metarouter/metarouter/internal/keeper"
)

// RunGuard is the whole of the guard process: see [keeper.Run].
func RunGuard(stdin *os.File) { keeper.Run(stdin) }
