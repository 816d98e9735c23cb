package link

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 2 * time.Second

	// A connection that does not answer for 3 s is lost, as a node is that is silent for 3 s.
	pingInterval = time.Second
	maxPings     = 2

	maxCreds = 64 << 10 // bytes of a file with credentials
)

// delay is the wait before an attempt to connect, counted from 1: at random between half and all of
// a time that doubles with each attempt.
func delay(attempt int) time.Duration {
	d := min(firstDelay<<min(attempt-1, 10), maxDelay)
	return d/2 + rand.N(d/2)
}

// connect begins to connect. The connection goes on trying by itself.
func (l *Link) connect() (*nats.Conn, error) {
	options, err := l.login()
	if err != nil {
		return nil, err
	}
	if c := l.options.Config.TLS; c.CA != "" {
		options = append(options, nats.RootCAs(c.CA))
	}
	if c := l.options.Config.TLS; c.Cert != "" || c.Key != "" {
		options = append(options, nats.ClientCert(c.Cert, c.Key))
	}
	options = append(options,
		func(o *nats.Options) error { o.Servers = l.options.Config.URLs; return nil },
		nats.Name("metarouter "+l.options.Key),
		nats.SetCustomDialer(&l.dialer), nats.SkipHostLookup(), // the dialer does that
		nats.Timeout(dialTimeout),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(delay),
		nats.ReconnectBufSize(-1), nats.ReconnectOnFlusherError(),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(maxPings),
		nats.ConnectHandler(l.connected), nats.ReconnectHandler(l.connected),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { l.disconnected(err) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { l.failed(err) }),
		nats.ErrorHandler(l.asyncError),
		nats.ClosedHandler(func(*nats.Conn) { l.closed <- struct{}{} }),
	)
	conn, err := nats.Connect("", options...)
	if err != nil && l.options.Config.TLS != (config.Cluster{}.TLS) {
		err = fmt.Errorf(`use the files of "tls": %w`, err)
	}
	return conn, err
}

// login returns the options that log in with the file of the configuration. It is read for each
// connection, since it may be replaced.
func (l *Link) login() ([]nats.Option, error) {
	path := l.options.Config.Creds
	if path == "" {
		return nil, nil
	}
	text, err := readCreds(path)
	if err != nil {
		return nil, err
	}
	sign := func(nonce []byte) ([]byte, error) { return signNonce(path, nonce) }
	if bytes.Contains(text, []byte("NATS USER JWT")) {
		return []nats.Option{nats.UserJWT(func() (string, error) {
			text, err := readCreds(path)
			if err != nil {
				return "", err
			}
			return nkeys.ParseDecoratedJWT(text)
		}, sign)}, nil
	}
	pair, err := readSeed(path)
	if err != nil {
		return nil, err
	}
	defer pair.Wipe()
	public, err := pair.PublicKey()
	if err != nil {
		return nil, err
	}
	return []nats.Option{nats.Nkey(public, sign)}, nil
}

func readCreds(path string) ([]byte, error) {
	text, err := safefile.Read(path, maxCreds)
	if err != nil {
		return nil, fmt.Errorf(`read "creds": %w`, err)
	}
	return text, nil
}

// readSeed returns the key of a file, which may be one with credentials.
func readSeed(path string) (nkeys.KeyPair, error) {
	text, err := readCreds(path)
	if err != nil {
		return nil, err
	}
	pair, err := nkeys.ParseDecoratedNKey(text)
	if err != nil {
		return nil, fmt.Errorf(`read "creds": %s has neither NATS credentials nor the seed of an nkey`, path)
	}
	return pair, nil
}

// errNonce is why a server gets no signature.
var errNonce = errors.New("the NATS server asks to sign what is no nonce of NATS; this router does not do that")

// signNonce signs a nonce with the key of a file. The key may be the key of the node, so that bytes
// that could be an announcement or a result are not signed: a nonce has only letters, digits, - and
// _.
func signNonce(path string, nonce []byte) ([]byte, error) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	if len(nonce) == 0 || len(nonce) > 64 || len(bytes.Trim(nonce, letters)) > 0 {
		return nil, errNonce
	}
	pair, err := readSeed(path)
	if err != nil {
		return nil, err
	}
	defer pair.Wipe()
	return pair.Sign(nonce)
}

// asyncError notes an error that belongs to no request.
func (l *Link) asyncError(_ *nats.Conn, sub *nats.Subscription, err error) {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		l.options.Log.Warn("messages came faster than this router reads them", zap.String("subject", sub.Subject))
	case errors.Is(err, nats.ErrPermissionViolation):
		l.denied(err)
	default:
		l.failed(err)
	}
}
