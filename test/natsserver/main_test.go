package natsserver_test

import (
	"os"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/layer"
)

func TestMain(m *testing.M) {
	layer.Package()
	os.Exit(m.Run())
}
