package safefile

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestUTF8(t *testing.T) {
	for content, want := range map[string]string{
		"\xff\xfe{\x00\xe9\x00\x3d\xd8\x00\xde": "\ufeff{é😀",
		"\xfe\xff\x00{\x00\xe9\xd8\x3d\xde\x00": "\ufeff{é😀",
		"\xef\xbb\xbf{}":                        "\ufeff{}",
		"{\x00}\x00":                            "{}",
		"\x00{\x00}":                            "{}",
		"\x00\x00\x00{":                         "\x00\x00\x00{",
		"{}":                                    "{}",
		"":                                      "",
	} {
		got := UTF8([]byte(content))
		expect.Equal(t, string(got), want, "%q is read as %q", content, got)
		if back := Like([]byte(content), got); string(back) != content {
			t.Errorf("%q is written as %q", content, back)
		}
	}
	expect.Equal(t, string(UTF8([]byte("\xff\xfea\x00b"))), "\ufeffa", "half a character is read as")
}
