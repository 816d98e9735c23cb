package server

import (
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/httpd"
	"github.com/mcp-metarouter/metarouter/server/internal/tools"
)

// Limits of the packages below, which the tests of the whole server reach.
const (
	maxInFlight        = 1000
	maxID              = 1024
	maxBatch           = 100
	batchWidth         = 16
	maxAnswers         = wire.MaxLine
	suspendTime        = 10 * time.Minute
	readerCheck        = time.Second
	maxQueued          = 10_000
	defaultReadTimeout = time.Minute
	patience           = time.Minute
	lastPatience       = 2 * time.Second
	lazily             = 50 * time.Millisecond
	longer             = 5 * time.Second
	keepAlive          = 25 * time.Second
	maxKept            = 2 << 20
	maxUnreadMessages  = 10_000
	defaultBudget      = 2000
	unsureLimit        = 10
	maxMore            = 10
	headerSession      = "Mcp-Session-Id"
	headerVersion      = "Mcp-Protocol-Version"
	headerMethod       = "Mcp-Method"
	headerName         = "Mcp-Name"
	headerLastID       = "Last-Event-Id"
)

// What our own tools and routes answer.
type (
	found       = tools.Found
	description = tools.Description
	proposal    = tools.Proposal
	truncation  = tools.Truncation
	meshNode    = httpd.MeshNode
)
