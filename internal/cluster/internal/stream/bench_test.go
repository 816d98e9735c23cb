package stream

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/nats-io/nats.go"
)

// BenchmarkRoundTrip compares a stream with a request of NATS, which has no TLS, order or window.
func BenchmarkRoundTrip(b *testing.B) {
	for name, size := range map[string]int{"100B": 100, "1MiB": 1<<20 - 1000} {
		b.Run(name+"/stream", func(b *testing.B) {
			near, far := pair(b)
			here, there := dial(b, near, far)
			here.SetDeadline(time.Time{})
			there.SetDeadline(time.Time{})
			go func() {
				buffer := make([]byte, size)
				for {
					if _, err := io.ReadFull(there, buffer); err != nil {
						return
					}
					if _, err := there.Write(buffer); err != nil {
						return
					}
				}
			}()
			message := bytes.Repeat([]byte("x"), size)
			b.ReportAllocs()
			for b.Loop() {
				_, err := here.Write(message)
				expect.OK(b, err)
				_, err = io.ReadFull(here, message)
				expect.OK(b, err)
			}
		})
		b.Run(name+"/request", func(b *testing.B) {
			url := server(b)
			near, far := connect(b, url), connect(b, url)
			if _, err := far.Subscribe("echo", func(m *nats.Msg) { m.Respond(m.Data) }); err != nil || far.Flush() != nil {
				b.Fatal(err)
			}
			message := bytes.Repeat([]byte("x"), size)
			b.ReportAllocs()
			for b.Loop() {
				_, err := near.Request("echo", message, patience)
				expect.OK(b, err)
			}
		})
	}
}

// BenchmarkOpen opens and closes a stream.
func BenchmarkOpen(b *testing.B) {
	near, far := pair(b)
	go func() {
		for {
			c, err := far.Accept(b.Context())
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	for b.Loop() {
		c, err := near.Dial(minute(b), far.Address(), nil)
		expect.OK(b, err)
		c.Close()
	}
}
