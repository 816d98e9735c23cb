package wine

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func TestMain(m *testing.M) { mcptest.Main(m) }
