package console

import (
	"io"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Lines are written of the least severe level that anybody still wants, in whatever order they leave.
func TestVerbose(t *testing.T) {
	var written strings.Builder
	c := New(strings.NewReader(""), io.Discard, &written)
	log, err := c.Logger(zapcore.ErrorLevel)
	expect.OK(t, err)
	least := func() (level string) {
		for _, l := range []zapcore.Level{zapcore.DebugLevel, zapcore.InfoLevel, zapcore.WarnLevel, zapcore.ErrorLevel} {
			if log.Core().Enabled(l) {
				return l.String()
			}
		}
		return ""
	}
	var got []string
	first, second, third := Verbose(c, zapcore.InfoLevel), Verbose(c, zapcore.DebugLevel), Verbose(c, zapcore.DebugLevel)
	for _, stop := range []func(){first, second, third} {
		got = append(got, least())
		stop()
	}
	expect.List(t, append(got, least()), []string{"debug", "debug", "debug", "error"})
}
