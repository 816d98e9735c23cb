package urls

import (
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestCause(t *testing.T) {
	refused := errors.New("connection refused")
	failed := &url.Error{Op: "Get", URL: "https://host/?key=secret", Err: refused}
	for err, want := range map[error]error{nil: nil, refused: refused, failed: refused, fmt.Errorf("ask: %w", failed): refused} {
		expect.Equal(t, Cause(err), want, "%v", err)
	}
}
