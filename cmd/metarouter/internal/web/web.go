// Package web serves the router over HTTP: it listens on an address with or without TLS,
// knows clients by tokens, its own and identity providers', and by certificates, and ends
// connections in order.
//
// [New] checks flags and configuration, [Listener.Listen] binds the address,
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
	"golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/bearer"
	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/internal/reload"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/urls"
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
	clients     *authorities // of clients' certificates; nil if clients are not asked for one
	maxHeader   int64
	connections *connections
	pages       *http.ServeMux
	tokens      bool   // clients could have a token at the start, for the log
	publicURL   string // as the configuration had it at the start, for the log
	verifier    *bearer.Verifier
	warn        *rate.Sometimes // for a certificate that lets no client in
	log         *zap.Logger

	mu   sync.Mutex   // guards the fields below
	file config.Token // of the file of the flags, as it was last read
}

// New returns a listener by the flags, or else the configuration. Its
// errors are wrong usage. A client that reaches the router can run tools, so an address or
// a public URL that other machines reach needs tokens, issuers or certificates.
func New(c config.HTTP, f Flags, pages *http.ServeMux, log *zap.Logger) (*Listener, error) {
	address := cmp.Or(f.Address, c.Addr)
	file, err := tokenOf(f.TokenFile)
	if err != nil {
		return nil, err
	}
	tokens := allTokens(c, file)
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--http %s is not an address (%w); write for example --http 127.0.0.1:8787", address, err)
	}
	certificate, err := certificateOf(c, f, log)
	if err != nil {
		return nil, err
	}
	var clients *authorities
	if c.ClientCA != "" && certificate != nil { // the configuration reports the problem that there is no TLS
		if clients, err = loadAuthorities(c.ClientCA, log); err != nil {
			return nil, err
		}
	}
	local := resolved.IP.IsLoopback()
	open := len(tokens) == 0 && len(c.Issuers) == 0 && len(c.Certificates) == 0 && c.ClientCA == "" // anyone is let in
	if !local && open {
		return nil, fmt.Errorf("--http %s is open to other machines, so clients must send a token: set %s, --token-file or metarouter.http.tokens (http.oauth and http.clientCA let clients in too); or listen on 127.0.0.1:%d", address, secret.TokenVariable, resolved.Port)
	}
	if open && urls.LeadsElsewhere(c.PublicURL) {
		return nil, fmt.Errorf("clients of other machines come by metarouter.http.publicUrl, %s, so they must send a token: set %s, --token-file or metarouter.http.tokens (http.oauth and http.clientCA let clients in too); or remove publicUrl", c.PublicURL, secret.TokenVariable)
	}
	switch short := slices.ContainsFunc(tokens, func(t config.Token) bool { return secret.IsShort(t.Text) }); {
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
		flags: f, host: host, address: resolved, certificate: certificate, clients: clients, maxHeader: c.MaxHeader, connections: newConnections(mostConnections(c), log.Named("http")),
		pages: pages, log: log, file: file, tokens: len(tokens) > 0, publicURL: c.PublicURL,
		verifier: bearer.New(bearer.Options{Log: log.Named("bearer")}), warn: &rate.Sometimes{Interval: warnAgain},
	}, nil
}

// Listen binds the address. The listener must be closed, unless it serves.
func (l *Listener) Listen(ctx context.Context) error {
	var err error
	l.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", l.address.String())
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; write another port after --http", err)
	}
	return err
}

// announce logs where clients reach the router.
func (l *Listener) announce() {
	scheme := "http"
	if l.certificate != nil {
		scheme = "https"
	}
	said := []zap.Field{zap.String("url", scheme+"://"+l.bound()+"/mcp"), zap.Bool("token", l.tokens)}
	if l.publicURL != "" {
		said = append(said, zap.String("public url", l.publicURL+"/mcp"))
	}
	l.log.Info("serving MCP over HTTP", said...)
}

func (l *Listener) bound() string { return l.listener.Addr().String() }

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
	return loadCertificate(cert, key, log)
}

var errShort = fmt.Errorf("each token (%s, --token-file, metarouter.http.tokens) needs at least %d characters; make one with 'metarouter token new'", secret.TokenVariable, secret.MinToken)

// tokenOf returns the token in a file, the zero value without a file.
func tokenOf(file string) (config.Token, error) {
	if file == "" {
		return config.Token{}, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return config.Token{}, fmt.Errorf("--token-file %s can't be read; name a file that contains one token: %w", file, err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return config.Token{}, fmt.Errorf("--token-file %s: it must contain one token", file)
	}
	return plainToken(token), nil
}

// Serve serves the router with the configuration of r until ctx ends. Then it lets
// calls finish for a while.
func (l *Listener) Serve(ctx context.Context, s *server.Servers, parts *adapter.Router) error {
	options := reload.Follow(parts, l.optionsOf)
	defer l.verifier.Close() // after the handler, which asks it
	handler := s.Handler(server.HTTPOptions{
		Bound: l.bound(), Pages: l.pages, Logins: parts.Logins(), Accounts: parts, Audit: parts.Audit, Live: options,
	})
	checked := http.Handler(handler)
	if l.clients != nil {
		checked = l.clients.handler(handler)
	}
	problems, err := zap.NewStdLogAt(l.log.Named("http"), zap.DebugLevel)
	if err != nil {
		return err
	}
	h := &http.Server{
		Handler: l.connections.handler(checked), ConnState: l.connections.changed, ConnContext: l.connections.context,
		ReadHeaderTimeout: HeaderTime, IdleTimeout: IdleTime, MaxHeaderBytes: int(min(l.maxHeader, math.MaxInt32)), ErrorLog: problems,
	}
	l.announce()
	accepted := pipe.Listen(l.listener)
	serve := func() error { return h.Serve(accepted) }
	if l.certificate != nil { // with HTTP/2 for clients that ask for it
		h.TLSConfig = l.certificate.config(l.clients)
		serve = func() error { return h.ServeTLS(accepted, "", "") }
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
