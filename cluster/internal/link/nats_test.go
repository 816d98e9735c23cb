package link_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/link"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/nodeidentity"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A node is a Link with the frames that it has received.
type node struct {
	*link.Link
	t      testing.TB
	id     *nodeidentity.Identity
	frames chan *frame.Frame
	counts count.Counts
	log    *observer.ObservedLogs
}

func newIdentity(t testing.TB) *nodeidentity.Identity {
	t.Helper()
	id, err := nodeidentity.Open(filepath.Join(t.TempDir(), "node.nk"))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func open(t testing.TB, c config.Cluster) *node {
	t.Helper()
	core, log := observer.New(zapcore.DebugLevel)
	n := &node{t: t, id: newIdentity(t), frames: make(chan *frame.Frame, 1000), log: log}
	c.Name = "office"
	var err error
	if n.Link, err = link.Open(context.Background(), link.Options{Config: c, Identity: n.id, Counts: &n.counts, Log: zap.New(core)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	n.Receive(func(f *frame.Frame) { n.frames <- f })
	return n
}

// until waits for a state.
func (n *node) until(what string, ok func(link.State) bool) link.State {
	n.t.Helper()
	for limit := time.After(time.Minute); ; {
		changed := n.Changed()
		s := n.State()
		if ok(s) {
			return s
		}
		select {
		case <-changed:
		case <-limit:
			n.t.Fatalf("waited in vain for %s; the state is %+v", what, s)
		}
	}
}

func (n *node) connected() link.State {
	n.t.Helper()
	return n.until("a connection", func(s link.State) bool { return s.Connected })
}

// problem waits for a problem that contains the text.
func (n *node) problem(text string) link.State {
	n.t.Helper()
	return n.until(text, func(s link.State) bool { return strings.Contains(strings.Join(s.Problems, "\n"), text) })
}

// next returns the next frame for the node, or to all.
func (n *node) next() *frame.Frame {
	n.t.Helper()
	select {
	case f := <-n.frames:
		return f
	case <-time.After(time.Minute):
		n.t.Fatal("waited in vain for a frame")
		return nil
	}
}

// reach sends pings to a node until one arrives, so that the subscriptions are in force. It returns
// all frames that came.
func (n *node) reach(to *node) (came []*frame.Frame) {
	n.t.Helper()
	for limit := time.Now().Add(time.Minute); len(came) == 0; {
		err := n.Send(to.Self(), frame.Header{Kind: frame.Ping, Nonce: "reach"}, nil)
		if err != nil && !errors.Is(err, link.ErrDisconnected) || time.Now().After(limit) {
			n.t.Fatalf("a node does not reach another: %v", err)
		}
		came = append(came, to.within(100*time.Millisecond)...)
	}
	return append(came, to.within(50*time.Millisecond)...)
}

// within returns the frames that come until none comes for some time.
func (n *node) within(quiet time.Duration) (frames []*frame.Frame) {
	for {
		select {
		case f := <-n.frames:
			frames = append(frames, f)
		case <-time.After(quiet):
			return frames
		}
	}
}

func TestFramesArrive(t *testing.T) {
	s := natsserver.Start(t)
	a, b := open(t, config.Cluster{URLs: []string{s.URL()}}), open(t, config.Cluster{URLs: []string{s.URL()}})
	a.connected()
	b.connected()
	a.reach(b)
	for i := range 100 {
		if err := a.Send(b.Self(), frame.Header{Kind: frame.Offer, Call: fmt.Sprint(i), Body: &frame.Body{ID: "1"}}, []byte("body")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		if f := b.next(); f.Verify() != nil || f.Header.From != a.Self() || f.Header.Call != fmt.Sprint(i) || string(f.Payload) != "body" {
			t.Fatalf("frame %d is %+v", i, f.Header)
		}
	}
	if err := a.Send(frame.Address{}, frame.Header{Kind: frame.Beat}, nil); err != nil {
		t.Fatal(err)
	}
	if a.next().Header.Kind != frame.Beat || b.next().Header.Kind != frame.Beat {
		t.Error("a frame to all does not reach all")
	}
	state := a.until("JetStream", func(s link.State) bool { return s.JetStream })
	if len(state.Problems) > 0 || state.Epoch != 1 || state.URL != s.URL() || state.TLS || state.RoundTrip <= 0 || state.Server == "" || state.MaxPayload != 1<<20 {
		t.Errorf("the state is %+v", state)
	}
}

// Frames of others are checked and counted before they are handled.
func TestBadFramesAreCounted(t *testing.T) {
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true})
	a, b := open(t, config.Cluster{URLs: []string{s.URL()}}), open(t, config.Cluster{URLs: []string{s.URL()}})
	a.connected()
	b.connected()
	a.reach(b)
	rogue, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer rogue.Close()
	subject := "metarouter.office.to." + b.Self().Key + "." + b.Self().Instance
	other, err := frame.Encode(frame.Header{Kind: frame.Ping, From: a.Self(), To: a.Self()}, nil, a.id)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{nil, []byte("garbage"), make([]byte, frame.MaxFrame+1), {2 << 4, 0, 0, 0, 0}, other} {
		if err := rogue.Publish(subject, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := rogue.FlushTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
	beat, err := frame.Encode(frame.Header{Kind: frame.Beat, From: a.Self()}, nil, a.id)
	if err != nil {
		t.Fatal(err)
	}
	if err := rogue.Publish("metarouter.office.beat."+b.Self().Key, beat); err != nil { // it may not use a's subject
		t.Fatal(err)
	}
	if err := rogue.FlushTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, _, dropped := b.counts.Now(); dropped[count.Signature] == 1 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("a beat by the subject of another node counts: dropped are %v", dropped)
		}
	}
	a.Send(b.Self(), frame.Header{Kind: frame.Ping, Nonce: "last"}, nil)
	if f := b.next(); f.Header.Nonce != "last" {
		t.Errorf("the frame is %+v", f.Header)
	}
	if _, _, dropped := b.counts.Now(); dropped[count.Version] != 2 || dropped[count.Garbage] != 2 || dropped[count.Recipient] != 1 {
		t.Errorf("dropped are %v", dropped)
	}
	b.problem("another major version")
}

// No frame is sent late, and the connection comes back.
func TestReconnect(t *testing.T) {
	s := natsserver.Start(t)
	a, b := open(t, config.Cluster{URLs: []string{s.URL()}}), open(t, config.Cluster{URLs: []string{s.URL()}})
	a.connected()
	b.connected()
	a.reach(b)
	s.Kill()
	a.until("the loss", func(s link.State) bool { return !s.Connected && len(s.Problems) == 1 })
	b.until("the loss", func(s link.State) bool { return !s.Connected })
	if err := a.Send(b.Self(), frame.Header{Kind: frame.Ping, Nonce: "late"}, nil); !errors.Is(err, link.ErrDisconnected) {
		t.Errorf("the error is %v", err)
	}
	s.Restart()
	if state := a.connected(); state.Epoch != 2 {
		t.Errorf("the epoch is %d", state.Epoch)
	}
	b.connected()
	a.until("JetStream", func(s link.State) bool { return s.JetStream })
	for _, f := range a.reach(b) {
		if f.Header.Nonce != "reach" {
			t.Errorf("a frame came late: %+v", f.Header)
		}
	}
}

func TestNothingListens(t *testing.T) {
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true})
	s.Kill()
	n := open(t, config.Cluster{URLs: []string{strings.Replace(s.URL(), "nats://", "nats://user:hunter2@", 1)}})
	state := n.problem("no NATS server answers at " + s.URL())
	if err := n.Send(n.Self(), frame.Header{Kind: frame.Ping}, nil); !errors.Is(err, link.ErrDisconnected) {
		t.Errorf("the error is %v", err)
	}
	if state.Epoch != 0 || n.MaxPayload() <= 0 {
		t.Errorf("the state is %+v", state)
	}
	s.Restart()
	if state := n.connected(); strings.Contains(fmt.Sprint(state, n.log.All()), "hunter2") {
		t.Errorf("the password is shown: %+v, %v", state, n.log.All())
	}
}

func TestJetStreamIsOff(t *testing.T) {
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true, MaxPayload: 100_000})
	n := open(t, config.Cluster{URLs: []string{s.URL()}})
	if state := n.problem("start nats-server with -js"); state.JetStream {
		t.Errorf("the state is %+v", state)
	}
	n.problem("set max_payload")
	if n.MaxPayload() != 50_000 {
		t.Errorf("a payload may have %d bytes", n.MaxPayload())
	}
	err := n.Send(n.Self(), frame.Header{Kind: frame.Part, Part: &frame.Range{}}, make([]byte, 110_000))
	if !errors.Is(err, frame.ErrTooLarge) || errors.Is(err, link.ErrDisconnected) {
		t.Errorf("the error is %v", err)
	}
}

func TestLogins(t *testing.T) {
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, _ := key.PublicKey()
	seed, _ := key.Seed()
	file := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(file, append([]byte("# mine\n"), seed...), 0o600); err != nil {
		t.Fatal(err)
	}
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true, Users: []natsserver.User{{Name: "user", Password: "hunter2"}, {NKey: public}}})
	with := func(user string) []string {
		return []string{strings.Replace(s.URL(), "nats://", "nats://"+user+"@", 1)}
	}

	open(t, config.Cluster{URLs: []string{s.URL()}, Creds: file}).connected()
	if state := open(t, config.Cluster{URLs: with("user:hunter2")}).connected(); strings.Contains(fmt.Sprint(state), "hunter2") {
		t.Errorf("the password is shown: %+v", state)
	}
	if state := open(t, config.Cluster{URLs: with("user:hunter3")}).problem("refuses the login"); !errors.Is(state.Err, nats.ErrAuthorization) {
		t.Errorf("the error is %v", state.Err)
	}
	open(t, config.Cluster{URLs: []string{s.URL()}}).problem("refuses the login")
	open(t, config.Cluster{URLs: []string{s.URL()}, Creds: file + "x"}).problem(`read "creds"`)

	// The file comes later.
	late := open(t, config.Cluster{URLs: []string{s.URL()}, Creds: file + "y"})
	late.problem(`read "creds"`)
	if err := os.Rename(file, file+"y"); err != nil {
		t.Fatal(err)
	}
	late.connected()
}

// withTLS returns a cluster at a URL with the files of "tls".
func withTLS(url, ca, cert, key string) (c config.Cluster) {
	c.URLs = []string{url}
	c.TLS.CA, c.TLS.Cert, c.TLS.Key = ca, cert, key
	return c
}

func TestTLS(t *testing.T) {
	ours, theirs := natsserver.NewAuthority(t), natsserver.NewAuthority(t)
	cert, key := ours.Issue("")
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true, TLS: &natsserver.TLS{Cert: cert, Key: key, ClientCA: ours.File}})
	mine, mineKey := ours.Issue("")
	wrong, wrongKey := theirs.Issue("")

	if state := open(t, withTLS(s.URL(), ours.File, mine, mineKey)).connected(); !state.TLS {
		t.Errorf("the state is %+v", state)
	}
	open(t, withTLS(s.URL(), theirs.File, mine, mineKey)).problem("unknown authority")
	open(t, withTLS(s.URL(), ours.File, "", "")).problem("certificate")
	open(t, withTLS(s.URL(), ours.File, wrong, wrongKey)).problem("certificate")
	open(t, withTLS(s.URL(), ours.File, mine, wrongKey)).problem(`"tls"`)
	open(t, withTLS(s.URL(), mineKey, "", "")).problem(`"tls"`)

	host, hostKey := ours.Issue("hub.example")
	named := natsserver.Start(t, natsserver.Options{NoJetStream: true, TLS: &natsserver.TLS{Cert: host, Key: hostKey}})
	open(t, withTLS(named.URL(), ours.File, "", "")).problem("another name")

	plain := natsserver.Start(t, natsserver.Options{NoJetStream: true})
	open(t, withTLS(plain.URL(), ours.File, "", "")).problem("has no TLS")
}

func TestCredentials(t *testing.T) {
	operator, stranger := natsserver.NewOperator(t), natsserver.NewOperator(t)
	s := natsserver.Start(t, natsserver.Options{Extra: operator.Extra()})
	n := open(t, config.Cluster{URLs: []string{s.URL()}, Creds: operator.Creds(time.Time{})})
	n.until("JetStream", func(s link.State) bool { return s.Connected && s.JetStream })
	open(t, config.Cluster{URLs: []string{s.URL()}, Creds: stranger.Creds(time.Time{})}).problem("refuses the login")

	// The server ends the connection at the expiry. New credentials in the file are used.
	file := operator.Creds(time.Now().Add(2 * time.Second))
	short := open(t, config.Cluster{URLs: []string{s.URL()}, Creds: file})
	short.connected()
	short.until("the expiry", func(s link.State) bool { return !s.Connected })
	if err := os.Rename(operator.Creds(time.Time{}), file); err != nil {
		t.Fatal(err)
	}
	short.connected()
}

func TestPermissions(t *testing.T) {
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true, Users: []natsserver.User{
		{Name: "user", Password: "pw", DenyPublish: []string{"metarouter.office.beat.>"}, DenySubscribe: []string{"metarouter.office.to.>"}},
	}})
	n := open(t, config.Cluster{URLs: []string{strings.Replace(s.URL(), "nats://", "nats://user:pw@", 1)}})
	n.connected()
	if err := n.Send(frame.Address{}, frame.Header{Kind: frame.Beat}, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"publish to metarouter.office.beat." + n.Self().Key, "subscribe to metarouter.office.to." + n.Self().Key + "." + n.Self().Instance}
	n.until("the refusals", func(s link.State) bool {
		slices.Sort(s.Denied)
		return slices.Equal(s.Denied, want)
	})
	n.problem(`allow it "metarouter.office.beat.` + n.Self().Key + `"`)
	n.problem(`allow it "metarouter.office.to.` + n.Self().Key + `.>"`)
}

// A relay that is cut says nothing, and the server behind it is as good as dead.
func TestSilentServer(t *testing.T) {
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true})
	relay := natsserver.Relay(t, s.Address(), natsserver.RelayOptions{Delay: time.Millisecond})
	n := open(t, config.Cluster{URLs: []string{relay.URL()}})
	n.connected()
	relay.Cut()
	n.until("the loss", func(s link.State) bool { return !s.Connected })
	n.problem("did not answer for some seconds")
	relay.Heal()
	n.until("the connection", func(s link.State) bool { return s.Connected && s.Epoch == 2 })
}

// Send does not wait while a server accepts connections and says nothing.
func TestSendDoesNotWaitForALogin(t *testing.T) {
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true})
	relay := natsserver.Relay(t, s.Address(), natsserver.RelayOptions{})
	n := open(t, config.Cluster{URLs: []string{relay.URL()}})
	n.connected()
	relay.Cut()
	relay.Reset()
	n.until("the loss", func(s link.State) bool { return !s.Connected })
	sent := 0
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); sent++ { // longer than the first pause
		if err := n.Send(n.Self(), frame.Header{Kind: frame.Ping}, nil); !errors.Is(err, link.ErrDisconnected) {
			t.Fatalf("the error is %v", err)
		}
		n.State()
		n.MaxPayload()
		time.Sleep(10 * time.Millisecond)
	}
	if sent < 40 {
		t.Errorf("only %d frames were refused in two seconds", sent)
	}
	relay.Heal()
	n.connected()
}

// Send does not wait for a server that reads nothing.
func TestSendDoesNotWait(t *testing.T) {
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true})
	n := open(t, config.Cluster{URLs: []string{s.URL()}})
	n.connected()
	s.Stop()
	sent := make(chan int)
	go func() {
		total := 0
		h := frame.Header{Kind: frame.Part, Part: &frame.Range{Body: "1"}}
		for total < 32<<20 && n.Send(n.Self(), h, make([]byte, 100_000)) == nil {
			total += 100_000
		}
		sent <- total
	}()
	select {
	case total := <-sent:
		if total < 32<<20 && n.State().Connected {
			t.Errorf("only %d bytes were taken", total)
		}
	case <-time.After(time.Minute):
		t.Error("Send waits")
	}
	s.Continue()
	n.until("the connection", func(s link.State) bool { return s.Connected && s.Epoch >= 1 })
}

// BenchmarkEcho measures a signed frame there and one back, with checks of their signatures.
func BenchmarkEcho(b *testing.B) {
	s := natsserver.Start(b, natsserver.Options{NoJetStream: true})
	x, y := open(b, config.Cluster{URLs: []string{s.URL()}}), open(b, config.Cluster{URLs: []string{s.URL()}})
	x.connected()
	y.connected()
	x.reach(y)
	y.Receive(func(f *frame.Frame) {
		if f.Verify() == nil {
			y.Send(f.Header.From, frame.Header{Kind: frame.Pong, Nonce: f.Header.Nonce}, nil)
		}
	})
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := x.Send(y.Self(), frame.Header{Kind: frame.Ping, Nonce: "n"}, nil); err != nil {
			b.Fatal(err)
		}
		if f := x.next(); f.Verify() != nil {
			b.Fatal("the signature is wrong")
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkParts measures how fast a body goes from one node to another.
func BenchmarkParts(b *testing.B) {
	s := natsserver.Start(b, natsserver.Options{NoJetStream: true})
	x, y := open(b, config.Cluster{URLs: []string{s.URL()}}), open(b, config.Cluster{URLs: []string{s.URL()}})
	x.connected()
	y.connected()
	x.reach(y)
	part := make([]byte, x.MaxPayload())
	const window = 8 // parts under way
	b.SetBytes(int64(len(part)))
	under := 0
	for b.Loop() {
		if err := x.Send(y.Self(), frame.Header{Kind: frame.Part, Part: &frame.Range{Body: "1"}}, part); err != nil {
			b.Fatal(err)
		}
		if under++; under == window {
			y.next()
			under--
		}
	}
}

// A port at which no NATS server answers is named.
func TestOtherProtocol(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections, and waits as an HTTP server does
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := open(t, config.Cluster{URLs: []string{"nats://" + l.Addr().String()}})
	n.problem("at nats://" + l.Addr().String() + " does not answer as a NATS server")
}

// A connection that Close ends is not logged as lost.
func TestCloseIsNoLoss(t *testing.T) {
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true})
	n := open(t, config.Cluster{URLs: []string{s.URL()}})
	n.connected()
	n.Close()
	if lost := n.log.FilterMessage("lost the connection to NATS").Len(); lost != 0 {
		t.Errorf("a loss was logged %d times", lost)
	}
}
