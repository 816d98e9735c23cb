package callee

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
)

// For any headers, signed by a trusted gateway, nothing panics, no call runs twice, and a call that
// is not direct runs only with a start that has the nonce. When all is over, nothing is left.
func FuzzReceive(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"offer","call":"1","server":"files","offer":{"method":"tools/call","tool":"read"}}`,
		`{"kind":"offer","call":"1","server":"files","offer":{"method":"tools/call","tool":"read","direct":true}}`,
		`{"kind":"start","call":"1","nonce":"x"}`,
		`{"kind":"answer","call":"1","message":{"id":1,"method":""},"body":{"id":"a","size":9}}`,
		`{"kind":"pull","call":"1","part":{"body":"result","offset":-1}}`,
		`{"kind":"part","call":"1"}`,
		`{"kind":"subscribe","call":"s","server":"files","uri":"a","home":"h","offer":{"method":""}}`,
		`{"kind":"level","message":{"method":"debug"}}`,
		`{"kind":"poll","call":"1"}`, `{"kind":"done","call":"1"}`, `{"kind":"cancel","call":"1"}`, `{"kind":"release","home":"h"}`, `{"kind":"tell","call":"2","home":"h"}`,
	} {
		f.Add([]byte(seed), []byte(seed), []byte(`{"name":"read"}`))
	}
	f.Fuzz(func(t *testing.T, first, second, payload []byte) {
		inWorld(t, func(t *testing.T, w *world) {
			g := w.gateway()
			directs := 0
			for _, text := range [][]byte{first, second, first} {
				h, ok := headerOf(text)
				if !ok {
					continue
				}
				h.From, h.To, h.Time = g.Self(), w.node.Self(), time.Now().UnixMilli()
				if h.Kind == frame.Offer && h.Offer != nil && h.Offer.Direct {
					directs++
				}
				var with []byte
				if h.Body != nil || h.Part != nil {
					with = payload
				}
				if data, err := frame.Encode(h, with, g.Key()); err == nil {
					g.SendRaw(w.node.Self(), data)
				}
			}
			g.take()
			for id, n := range w.host.ran {
				if n != 1 || directs == 0 {
					t.Errorf("%q ran %d times", id, n)
				}
			}
			close(w.lost(g.Self()))
			time.Sleep(2 * keepTime)
			g.take()
			w.empty()
		})
	})
}

func headerOf(text []byte) (h frame.Header, ok bool) {
	err := json.Unmarshal(text, &h)
	return h, err == nil
}
