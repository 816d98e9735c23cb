// Package web serves the router over HTTP: it listens on an address with or without TLS,
// collects the tokens that clients must send, and ends connections in order.
//
// [New] checks what flags and configuration ask for, [Listener.Listen] binds the address,
// and [Listener.Serve] serves until its context ends.
package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/server"
)

const (
	// lastCalls is how long calls may go on after the router was asked to end.
	lastCalls = 10 * time.Second

	// lastBytes is how long answers may take to leave after that.
	lastBytes = 2 * time.Second

	// HeaderTime is how long a client may take to send the header of a request.
	HeaderTime = 10 * time.Second

	// IdleTime is how long a connection may stay without a request.
	IdleTime = 2 * time.Minute
)

// Flags are the flags of serve that concern HTTP. The zero value leaves everything to the
// configuration.
type Flags struct {
	Address   string
	TokenFile string   // of one more token
	Hosts     []string // names by which clients may call this machine
	TLSCert   string   // PEM file
	TLSKey    string   // PEM file
}

// A Listener serves a router over HTTP.
type Listener struct {
	flags       Flags
	host        string // by which the address was given
	address     *net.TCPAddr
	listener    net.Listener // nil before Listen
	certificate *certificate // nil without TLS
	maxHeader   int64
	connections *connections
	pages       *http.ServeMux
	log         *zap.Logger

	mu     sync.Mutex // guards what follows
	tokens []string   // that are valid now
}

// New returns a listener of what the flags, or else the configuration, ask for. Its
// errors are wrong usage. A client that reaches the router can run tools, so an address
// that other machines reach needs a token.
func New(c config.HTTP, f Flags, pages *http.ServeMux, log *zap.Logger) (*Listener, error) {
	address := f.Address
	if address == "" {
		address = c.Addr
	}
	tokens, err := tokens(c, f.TokenFile)
	if err != nil {
		return nil, err
	}
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--http %s is not an address (%w); write for example --http 127.0.0.1:8787", address, err)
	}
	certificate, err := certificateOf(c, f, log)
	if err != nil {
		return nil, err
	}
	local := resolved.IP.IsLoopback()
	if !local && len(tokens) == 0 {
		return nil, fmt.Errorf("--http %s is open to other machines, so clients must send a token: set %s, --token-file or metarouter.http.tokens; or listen on 127.0.0.1:%d", address, secret.TokenVariable, resolved.Port)
	}
	switch short := hasShort(tokens); {
	case short && !local:
		return nil, fmt.Errorf("--http %s is open to other machines, so %w", address, errShort)
	case short:
		log.Warn("a token is so short that programs of this machine can guess it: " + errShort.Error())
	}
	if !local && certificate == nil {
		log.Warn("other machines can reach this router, and what they send is not encrypted: use --tls-cert and --tls-key, or put a proxy with TLS in front of it")
	}
	host, _, _ := net.SplitHostPort(address)
	return &Listener{
		flags: f, host: host, address: resolved, certificate: certificate, maxHeader: c.MaxHeader, connections: newConnections(mostConnections(c)),
		pages: pages, log: log, tokens: tokens,
	}, nil
}

// Listen binds the address. The listener must be closed, unless it serves.
func (l *Listener) Listen(ctx context.Context) error {
	var config net.ListenConfig
	var err error
	if l.listener, err = config.Listen(ctx, "tcp", l.address.String()); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("another program, perhaps another router, listens at %s; stop it, or write another port after --http: %w", l.address, err)
		}
		return err
	}
	scheme := "http"
	if l.certificate != nil {
		scheme = "https"
	}
	l.log.Info("serving MCP over HTTP", zap.String("url", scheme+"://"+l.bound()+"/mcp"), zap.Bool("token", len(l.tokens) > 0))
	return nil
}

func (l *Listener) bound() string { return l.listener.Addr().String() }

// optionsOf returns the options that an edit of the configuration may change. Clients of
// other machines go on needing a token: an edit that leaves none keeps the tokens that
// were valid before.
func (l *Listener) optionsOf(c config.Config) *server.HTTPOptions {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := c.Router.HTTP
	l.connections.limit(mostConnections(h))
	tokens, err := tokens(h, l.flags.TokenFile)
	if local := l.address.IP.IsLoopback(); err == nil && !local && len(tokens) == 0 {
		err = errors.New("other machines can reach this router, so its clients must send a token")
	} else if err == nil && !local && hasShort(tokens) {
		err = fmt.Errorf("other machines can reach this router, so %w", errShort)
	}
	if err != nil {
		l.log.Warn(`the edit of "http.tokens" can't be used; the previous tokens stay valid`, zap.Error(err))
	} else {
		l.tokens = tokens
	}
	return &server.HTTPOptions{
		Bound:        l.bound(),
		AllowedHosts: slices.Concat(h.AllowedHosts, l.flags.Hosts, []string{l.host}), AllowedOrigins: h.AllowedOrigins,
		Tokens: l.tokens, MaxBody: h.MaxBody, MaxBodyMemory: h.MaxBodyMemory, MaxBatch: h.MaxBatch, ReadTimeout: h.ReadTimeout,
		Rate: h.Rate.PerSecond, Burst: h.Rate.Burst, SessionTimeout: h.SessionTimeout, MaxSessions: h.MaxSessions,
	}
}

// mostConnections returns the bound on connections: half of the files that this process may
// open are for the servers.
func mostConnections(c config.HTTP) int {
	return min(cmp.Or(c.MaxConnections, math.MaxInt32), max(1, maxFiles()/2))
}

// Close stops listening.
func (l *Listener) Close() error { return l.listener.Close() }

// certificateOf returns the certificate that the flags or else the configuration name,
// or nil if neither does.
func certificateOf(c config.HTTP, f Flags, log *zap.Logger) (*certificate, error) {
	cert, key := c.TLSCert, c.TLSKey
	if f.TLSCert != "" || f.TLSKey != "" {
		cert, key = f.TLSCert, f.TLSKey
	}
	switch {
	case cert == "" && key == "":
		return nil, nil
	case cert == "" || key == "":
		return nil, errors.New("TLS needs both --tls-cert and --tls-key (tlsCert and tlsKey in the configuration)")
	}
	loaded, err := loadCertificate(cert, key, log)
	if err != nil {
		return nil, fmt.Errorf("the TLS certificate: %w", err)
	}
	return loaded, nil
}

var errShort = fmt.Errorf("each token (%s, --token-file, metarouter.http.tokens) needs at least %d characters; make one with 'openssl rand -hex 24'", secret.TokenVariable, secret.MinToken)

// hasShort reports whether a token can be guessed. No client can send a zero byte, which
// package config has in place of a token that is not known.
func hasShort(tokens []string) bool {
	return slices.ContainsFunc(tokens, func(token string) bool { return len(token) < secret.MinToken && !strings.Contains(token, "\x00") })
}

// tokens returns all tokens. A client must send one of them.
func tokens(c config.HTTP, file string) ([]string, error) {
	all := []string{secret.Token()}
	all = append(all, c.Tokens...)
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--token-file %s can't be read; name a file that contains one token: %w", file, err)
		}
		token := strings.TrimSpace(string(b))
		if token == "" || strings.ContainsAny(token, " \t\r\n") {
			return nil, fmt.Errorf("--token-file %s: it must contain one token", file)
		}
		all = append(all, token)
	}
	return slices.DeleteFunc(all, func(token string) bool { return token == "" }), nil
}

// Serve serves the router, whose configuration parts has, until ctx ends. Then it lets
// calls finish for a while.
func (l *Listener) Serve(ctx context.Context, s *server.Server, parts *adapter.Parts) error {
	options := adapter.Follow(parts, l.optionsOf)
	handler := s.Handler(server.HTTPOptions{
		Bound: l.bound(), Pages: l.pages,
		Live: func() *server.HTTPOptions {
			now, _ := options()
			return now
		},
	})
	problems, err := zap.NewStdLogAt(l.log.Named("http"), zap.DebugLevel)
	if err != nil {
		return err
	}
	h := &http.Server{
		Handler: l.connections.handler(handler), ConnState: l.connections.changed, ConnContext: l.connections.context,
		ReadHeaderTimeout: HeaderTime, IdleTimeout: IdleTime, MaxHeaderBytes: int(min(l.maxHeader, math.MaxInt32)), ErrorLog: problems,
	}
	counted := listener{pipe.Listen(l.listener), l.connections, l.log.Named("http")}
	serve := func() error { return h.Serve(counted) }
	if l.certificate != nil { // with HTTP/2 for clients that ask for it
		h.TLSConfig = l.certificate.config()
		serve = func() error { return h.ServeTLS(counted, "", "") }
	}
	served := make(chan error, 1)
	go func() { served <- serve() }()
	select {
	case err := <-served:
		handler.Close(ctx)
		return fmt.Errorf("serve over HTTP: %w", err)
	case <-ctx.Done():
	}
	// Connections are still accepted, since calls in flight may wait for a message of the
	// client on another connection; the handler refuses new calls.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCalls)
	defer cancel()
	handler.Close(bounded)
	sent, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastBytes)
	defer cancel()
	h.Shutdown(sent)
	h.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
