package console

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// An error decides the exit code however it is wrapped, and is printed once.
func TestReport(t *testing.T) {
	failed := errors.New("no such file")
	for _, test := range []struct {
		err  error
		code int
		said string
	}{
		{nil, 0, ""},
		{failed, Failed, "metarouter: no such file\n"},
		{Usage(failed), BadUsage, "metarouter: no such file\n"},
		{fmt.Errorf("read: %w", Usage(failed)), BadUsage, "metarouter: no such file\n"},
		{&Error{Code: NoTool}, NoTool, ""},
		{Usage(nil), 0, ""},
	} {
		var said strings.Builder
		if code := Report(test.err, &said); code != test.code || said.String() != test.said {
			t.Errorf("%v: code %d and %q, want %d and %q", test.err, code, said.String(), test.code, test.said)
		}
	}
}
