package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

const (
	// lastCalls is how long calls may go on when the router is told to end.
	lastCalls = 10 * time.Second

	// lastBytes is how long answers may then be on their way.
	lastBytes = 2 * time.Second

	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
)

// A web is what the router is reached by over HTTP.
type web struct {
	listener    net.Listener
	certificate *certificate // nil if there is no TLS
	maxHeader   int64
	options     server.HTTPOptions
}

// listenHTTP listens where the flags or else the configuration say. Whoever can
// reach us can run tools, so beyond this machine that takes a token.
func listenHTTP(ctx context.Context, c config.HTTP, f serveFlags, log *zap.Logger) (*web, error) {
	address := f.http
	if address == "" {
		address = c.Addr
	}
	tokens, err := tokens(c, f.tokenFile)
	if err != nil {
		return nil, usage(err)
	}
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, usage(fmt.Errorf("--http %s: %w", address, err))
	}
	certificate, err := tlsOf(c, f, log)
	if err != nil {
		return nil, usage(err)
	}
	local := resolved.IP.IsLoopback()
	if !local && len(tokens) == 0 {
		return nil, usage(fmt.Errorf("--http %s is open to other machines, so clients must bear a token: set %s, --token-file or metarouter.http.tokens; or listen on 127.0.0.1:%d", address, supervisor.TokenVariable, resolved.Port))
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", resolved.String())
	if err != nil {
		return nil, err
	}
	bound := listener.Addr().String()
	scheme := "http"
	if certificate != nil {
		scheme = "https"
	}
	log.Info("serving MCP over HTTP", zap.String("url", scheme+"://"+bound+"/mcp"), zap.Bool("token", len(tokens) > 0))
	if !local && certificate == nil {
		log.Warn("other machines can reach this router, and what they send is not encrypted: use --tls-cert and --tls-key, or put a proxy with TLS in front of it")
	}
	host, _, _ := net.SplitHostPort(address)
	return &web{listener, certificate, c.MaxHeader, server.HTTPOptions{
		Bound: bound, AllowedHosts: slices.Concat(c.AllowedHosts, f.hosts, []string{host}), AllowedOrigins: c.AllowedOrigins,
		Tokens: tokens, MaxBody: c.MaxBody, MaxBatch: c.MaxBatch, ReadTimeout: c.ReadTimeout,
		Rate: c.Rate.PerSecond, Burst: c.Rate.Burst, SessionTimeout: c.SessionTimeout, MaxSessions: c.MaxSessions,
	}}, nil
}

// tlsOf returns the certificate that the flags or else the configuration name, nil
// if neither does.
func tlsOf(c config.HTTP, f serveFlags, log *zap.Logger) (*certificate, error) {
	cert, key := c.TLSCert, c.TLSKey
	if f.tlsCert != "" || f.tlsKey != "" {
		cert, key = f.tlsCert, f.tlsKey
	}
	switch {
	case cert == "" && key == "":
		return nil, nil
	case cert == "" || key == "":
		return nil, errors.New("TLS needs both --tls-cert and --tls-key (tlsCert and tlsKey in the configuration)")
	}
	made, err := loadCertificate(cert, key, log)
	if err != nil {
		return nil, fmt.Errorf("the TLS certificate: %w", err)
	}
	return made, nil
}

// tokens returns all tokens of which a client must bear one.
func tokens(c config.HTTP, file string) ([]string, error) {
	all := []string{os.Getenv(supervisor.TokenVariable)}
	all = append(all, c.Tokens...)
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		token := strings.TrimSpace(string(b))
		if token == "" || strings.ContainsAny(token, " \t\r\n") {
			return nil, fmt.Errorf("--token-file %s: there must be one token in it", file)
		}
		all = append(all, token)
	}
	return slices.DeleteFunc(all, func(token string) bool { return token == "" }), nil
}

// serve serves until ctx ends, and then lets calls finish for a while.
func (w *web) serve(ctx context.Context, s *server.Server, log *zap.Logger) error {
	handler := s.Handler(w.options)
	problems, err := zap.NewStdLogAt(log.Named("http"), zap.DebugLevel)
	if err != nil {
		return err
	}
	h := &http.Server{Handler: handler, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: int(min(w.maxHeader, math.MaxInt32)), ErrorLog: problems}
	serve := func() error { return h.Serve(pipe.Listen(w.listener)) }
	if w.certificate != nil { // with HTTP/2 for those who ask for it
		h.TLSConfig = w.certificate.config()
		serve = func() error { return h.ServeTLS(pipe.Listen(w.listener), "", "") }
	}
	served := make(chan error, 1)
	go func() { served <- serve() }()
	select {
	case err := <-served:
		handler.Close(ctx)
		return fmt.Errorf("serve over HTTP: %w", err)
	case <-ctx.Done():
	}
	// Connections are still taken, since calls in flight may wait for what the
	// client says on another one; the handler refuses new calls.
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
