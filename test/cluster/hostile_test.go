//go:build linux

package cluster

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// A stranger in the NATS account hears all frames of the cluster, can send each again, with garbage in
// between, in another order and cut short, and can overwrite the bucket. Nothing runs again, and calls
// go on.
func TestReplay(t *testing.T) {
	t.Parallel()
	hub := natsserver.Start(t)
	ledger := filepath.Join(t.TempDir(), "ledger")
	a := newNode(t, "a", []string{hub.URL()}, entries{})
	b := newNode(t, "b", []string{hub.URL()}, entries{"bank": bank("b", ledger)})
	b.cluster["share"] = []string{"*"}
	trustEachOther(a, b)
	a.start()
	b.start()
	a.lists("bank-at-b__" + charge)

	stranger, err := nats.Connect(hub.URL())
	expect.OK(t, err)
	defer stranger.Close()
	heard := make(chan *nats.Msg, 1<<16)
	hearing, err := stranger.ChanSubscribe("metarouter.test.>", heard)
	expect.OK(t, err)
	expect.OK(t, stranger.Flush())
	l := &load{name: "a", client: a.client()}
	var outcomes []outcome
	callAll := func(round int) {
		t.Helper()
		for i := range 30 {
			tool := []string{read, put, charge}[i%3]
			outcomes = append(outcomes, l.call(fmt.Sprintf("%s-%d-%d", tool, round, i), "bank-at-b", tool, 1))
		}
	}
	callAll(0)
	time.Sleep(time.Second) // for the last frames to be heard
	hearing.Unsubscribe()
	before := count(readLedger(t, ledger))

	var frames []*nats.Msg
	for len(heard) > 0 {
		frames = append(frames, <-heard)
	}
	if len(frames) < len(outcomes) {
		t.Fatalf("the stranger heard only %d frames", len(frames))
	}
	for range 3 {
		for _, m := range frames {
			send(t, stranger, m.Subject, m.Data)
			send(t, stranger, m.Subject, garbage(m.Data))
		}
		rand.Shuffle(len(frames), func(i, j int) { frames[i], frames[j] = frames[j], frames[i] })
	}
	time.Sleep(late)
	expect.Equal(t, count(readLedger(t, ledger)), before, "executions after the frames came again")
	callAll(1)
	overwrite(t, stranger, b.key)
	time.Sleep(late)
	callAll(2)
	a.lists("bank-at-b__" + charge)
	reportBroken(t, check(outcomes, readLedger(t, ledger), nil))
}

// count counts executions.
func count(ledger []fakeserver.LedgerLine) (n int) {
	for _, line := range ledger {
		if !line.Ended {
			n++
		}
	}
	return n
}

func send(t *testing.T, c *nats.Conn, subject string, data []byte) {
	t.Helper()
	expect.OK(t, c.Publish(subject, data))
}

// garbage returns the frame with a changed byte, or cut short, or something else.
func garbage(frame []byte) []byte {
	switch changed := append([]byte(nil), frame...); rand.IntN(3) {
	case 0:
		changed[rand.IntN(len(changed))] ^= 1 << rand.IntN(8)
		return changed
	case 1:
		return changed[:rand.IntN(len(changed))]
	}
	return []byte("PING\r\n")
}

// overwrite replaces all values of a node by nonsense, and deletes them.
func overwrite(t *testing.T, c *nats.Conn, key string) {
	t.Helper()
	js, err := jetstream.New(c)
	expect.OK(t, err)
	bucket, err := js.KeyValue(within(t), "metarouter-test")
	expect.OK(t, err)
	names, err := bucket.ListKeysFiltered(within(t), key+".>")
	expect.OK(t, err)
	count := 0
	for name := range names.Keys() {
		count++
		_, err := bucket.PutString(within(t), name, `{"servers":[]}`)
		expect.OK(t, err)
		expect.OK(t, bucket.Delete(within(t), name))
	}
	if count < 3 { // an announcement, definitions and a load
		t.Fatalf("the node has %d values", count)
	}
}
