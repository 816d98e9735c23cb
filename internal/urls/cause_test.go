package urls

import (
	"errors"
	"fmt"
	"net/url"
	"testing"
)

func TestCause(t *testing.T) {
	refused := errors.New("connection refused")
	failed := &url.Error{Op: "Get", URL: "https://host/?key=secret", Err: refused}
	for err, want := range map[error]error{nil: nil, refused: refused, failed: refused, fmt.Errorf("ask: %w", failed): refused} {
		if got := Cause(err); got != want {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	}
}
