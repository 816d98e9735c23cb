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

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/link"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A node is a Link with its log.
type node struct {
	*link.Link
	t   testing.TB
	id  *clusternode.Identity
	log *observer.ObservedLogs
}

func newIdentity(t testing.TB) *clusternode.Identity {
	t.Helper()
	id, err := clusternode.OpenIdentity(filepath.Join(t.TempDir(), "node.nk"))
	expect.OK(t, err)
	return id
}

func open(t testing.TB, c config.Cluster) *node {
	t.Helper()
	core, log := observer.New(zapcore.DebugLevel)
	n := &node{t: t, id: newIdentity(t), log: log}
	c.Name = "office"
	var err error
	if n.Link, err = link.Open(context.Background(), link.Options{Config: c, Key: n.id.Key(), Log: zap.New(core)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
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

func TestReconnect(t *testing.T) {
	layer.Integration(t)
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true, MaxPayload: 100_000})
	n := open(t, config.Cluster{URLs: []string{s.URL()}})
	state := n.connected()
	if state.Epoch != 1 || state.URL != s.URL() || state.Server == "" || !n.Up() || n.Conn() == nil {
		t.Errorf("the state is %+v", state)
	}
	n.problem("set max_payload")
	s.Kill()
	n.until("the loss", func(s link.State) bool { return !s.Connected && len(s.Problems) == 1 })
	s.Restart()
	expect.Equal(t, n.connected().Epoch, 2, "the epoch")
}

func TestPermissions(t *testing.T) {
	layer.Integration(t)
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true, Users: []natsserver.User{
		{Name: "user", Password: "pw", DenyPublish: []string{"$KV.>"}, DenySubscribe: []string{"metarouter.office.stream.>"}},
	}})
	n := open(t, config.Cluster{URLs: []string{strings.Replace(s.URL(), "nats://", "nats://user:pw@", 1)}})
	n.connected()
	_, err := n.Conn().SubscribeSync("metarouter.office.stream." + n.id.Key() + ".X.>")
	expect.OK(t, err)
	expect.OK(t, n.Conn().Publish("$KV.metarouter-office."+n.id.Key()+".X.load", nil))
	want := []string{"publish to $KV.metarouter-office." + n.id.Key() + ".X.load", "subscribe to metarouter.office.stream." + n.id.Key() + ".X.>"}
	n.until("the refusals", func(s link.State) bool {
		slices.Sort(s.Denied)
		return slices.Equal(s.Denied, want)
	})
	n.problem(`allow it "$KV.metarouter-office.` + n.id.Key() + `.>"`)
	n.problem(`allow it "metarouter.office.stream.` + n.id.Key() + `.>"`)
}

func TestNothingListens(t *testing.T) {
	layer.Integration(t)
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true})
	s.Kill()
	n := open(t, config.Cluster{URLs: []string{strings.Replace(s.URL(), "nats://", "nats://user:hunter2@", 1)}})
	state := n.problem("no NATS server answers at " + s.URL())
	if state.Epoch != 0 || n.Up() {
		t.Errorf("the state is %+v", state)
	}
	s.Restart()
	if state := n.connected(); strings.Contains(fmt.Sprint(state, n.log.All()), "hunter2") {
		t.Errorf("the password is shown: %+v, %v", state, n.log.All())
	}
}

func TestLogins(t *testing.T) {
	layer.Integration(t)
	key, err := nkeys.CreateUser()
	expect.OK(t, err)
	public, _ := key.PublicKey()
	seed, _ := key.Seed()
	file := filepath.Join(t.TempDir(), "seed")
	expect.OK(t, os.WriteFile(file, append([]byte("# mine\n"), seed...), 0o600))
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
	expect.OK(t, os.Rename(file, file+"y"))
	late.connected()
}

// withTLS returns a cluster at a URL with the files of "tls".
func withTLS(url, ca, cert, key string) (c config.Cluster) {
	c.URLs = []string{url}
	c.TLS.CA, c.TLS.Cert, c.TLS.Key = ca, cert, key
	return c
}

func TestTLS(t *testing.T) {
	layer.Integration(t)
	ours, theirs := natsserver.NewAuthority(t), natsserver.NewAuthority(t)
	cert, key := ours.Issue("")
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true, TLS: &natsserver.TLS{Cert: cert, Key: key, ClientCA: ours.File}})
	mine, mineKey := ours.Issue("")
	wrong, wrongKey := theirs.Issue("")

	open(t, withTLS(s.URL(), ours.File, mine, mineKey)).connected()
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
	layer.Integration(t)
	operator, stranger := natsserver.NewOperator(t), natsserver.NewOperator(t)
	s := natsserver.Start(t, natsserver.Options{Extra: operator.Extra()})
	n := open(t, config.Cluster{URLs: []string{s.URL()}, Creds: operator.Creds(time.Time{})})
	n.connected()
	open(t, config.Cluster{URLs: []string{s.URL()}, Creds: stranger.Creds(time.Time{})}).problem("refuses the login")

	// The server ends the connection at the expiry. New credentials in the file are used.
	life := 2 * time.Second
	file := operator.Creds(time.Now().Add(life))
	short := open(t, config.Cluster{URLs: []string{s.URL()}, Creds: file})
	short.until("the first connection", func(s link.State) bool {
		if s.Epoch == 0 && s.Err != nil { // on a busy machine, they expired before
			life *= 2
			os.Rename(operator.Creds(time.Now().Add(life)), file)
		}
		return s.Epoch > 0
	})
	short.until("the expiry", func(s link.State) bool { return !s.Connected })
	expect.OK(t, os.Rename(operator.Creds(time.Time{}), file))
	short.connected()
}

// A relay that is cut says nothing, and the server behind it is as good as dead.
func TestSilentServer(t *testing.T) {
	layer.Integration(t)
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

// A port at which no NATS server answers is named.
func TestOtherProtocol(t *testing.T) {
	layer.Integration(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections, and waits as an HTTP server does
	expect.OK(t, err)
	defer l.Close()
	n := open(t, config.Cluster{URLs: []string{"nats://" + l.Addr().String()}})
	n.problem("at nats://" + l.Addr().String() + " does not answer as a NATS server")
}

// A connection that Close ends is not logged as lost.
func TestCloseIsNoLoss(t *testing.T) {
	layer.Integration(t)
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true})
	n := open(t, config.Cluster{URLs: []string{s.URL()}})
	n.connected()
	n.Close()
	expect.Equal(t, n.log.FilterMessage("lost the connection to NATS").Len(), 0, "a loss was logged … times")
}
