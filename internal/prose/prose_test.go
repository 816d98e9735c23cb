package prose

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestAdvice(t *testing.T) {
	for message, want := range map[string][2]string{
		"it is wrong; write a; b":            {"it is wrong", "write a; b"},
		"it is wrong":                        {"it is wrong", ""},
		`"a; b" is wrong; write c`:           {`"a; b" is wrong`, "write c"},
		`"a\\\"; b" is wrong; write "c"`:     {`"a\\\"; b" is wrong`, `write "c"`},
		`'"' is not expected; close a quote`: {`'"' is not expected`, "close a quote"},
	} {
		mistake, correction := Advice(message)
		expect.Equal(t, [2]string{mistake, correction}, want, "%s", message)
	}
}
