package selector

import (
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/selector/internal/usage"
)

// A Usage is what was learned from use: which tools were called after which tasks. It is
// an [Experience]. A nil Usage learns nothing.
type Usage = usage.Store

// A Use is one call of a tool that was found for a task, for [Usage].Record.
type Use = usage.Use

// OpenUsage returns what was learned under a configuration, whose key is config, and
// where it goes on learning: a file below the folder dir. With dir "" it keeps everything
// in memory.
func OpenUsage(dir, config string, log *zap.Logger) (*Usage, error) {
	return usage.Open(dir, config, log)
}
