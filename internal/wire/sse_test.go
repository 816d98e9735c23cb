package wire

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestEvents(t *testing.T) {
	for in, want := range map[string]string{
		"\ufeffdata: a\n\n":                               "a",
		"data:a\r\n\r\ndata: b\r\rdata:c":                 "a|b|c",
		"data: a\ndata\ndata: b\n\n":                      "a\n\nb",
		": x\n\n\n\nevent: e\nid: 1\nretry: 5\ndata:\n\n": "e#1@5ms:",
		"id: 1\n\nfoo: bar\nid: a\x00b\nretry: x\n\n":     "#1",
		"data: a\n": "a",
		"data: aaaaaaaaaaaaaaaaaaaaa\nid: 2\n\ndata: b\n\n":  "TOO LONG|b",
		"data: aaaaaaaaaaaa\ndata: bbbbbbbbb\n\ndata: b\n\n": "TOO LONG|b",
		"": "",
	} {
		var got []string
		stream := NewEventReader(strings.NewReader(in), 20)
		for {
			ev, err := stream.Next()
			if err == ErrTooLong {
				got = append(got, "TOO LONG")
				continue
			}
			if err != nil {
				break
			}
			s := ev.Name
			if ev.HasID {
				s += "#" + ev.ID
			}
			if ev.Retry > 0 {
				s += "@" + ev.Retry.String()
			}
			if s != "" && ev.Data != nil {
				s += ":"
			}
			got = append(got, s+string(ev.Data))
		}
		expect.Equal(t, strings.Join(got, "|"), want, "%q is read as", in)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("id: 1\nretry: 5\ndata: a\r\ndata: b\r\r: c\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		stream := NewEventReader(strings.NewReader(in), 20)
		for n := 0; ; n++ {
			ev, err := stream.Next()
			if err != nil && err != ErrTooLong {
				return
			}
			if n > len(in) || len(ev.Data) > 20 {
				t.Fatalf("event %d of %q has %d bytes", n, in, len(ev.Data))
			}
		}
	})
}
