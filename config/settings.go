package config

import (
	"net"
	"time"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/secret"
)

func defaultRouter() Router {
	return Router{
		Mode:           "auto",
		Names:          "prefixed",
		Separator:      "__",
		ToolBudget:     10000,
		ListWait:       10 * time.Second,
		Timeout:        5 * time.Minute,
		Validate:       ValidateOn,
		RouteThreshold: 0.5,
		Learning:       true,
		AccessLog:      AccessLog{MaxSize: 100 << 20, MaxFiles: 5},
		HTTP: HTTP{
			Addr: "127.0.0.1:8787", MaxBody: 16 << 20, MaxBodyMemory: 256 << 20, MaxHeader: 64 << 10, MaxBatch: 100,
			ReadTimeout: time.Minute, MaxConnections: 4096, MaxSessions: 1000, SessionTimeout: 30 * time.Minute,
		},
	}
}

var validates = oneOf(ValidateOn, ValidateWarn, ValidateOff)

func routerFields(d *decoder, r *Router) fields {
	return fields{
		"mode":            set(d, &r.Mode, oneOf("auto", "search", "direct")),
		"names":           set(d, &r.Names, oneOf("prefixed", "bare")),
		"separator":       set(d, &r.Separator, oneOf("__", ".", "-", "/")),
		"toolBudget":      set(d, &r.ToolBudget, atLeast(0)),
		"listWait":        set(d, &r.ListWait, duration(orZero)),
		"pinned":          set(d, &r.Pinned, list(text)),
		"lazy":            set(d, &r.Lazy, boolean),
		"idleTimeout":     set(d, &r.IdleTimeout, duration(orZero)),
		"timeout":         set(d, &r.Timeout, duration(positive)),
		"validate":        set(d, &r.Validate, validates),
		"maxResultTokens": set(d, &r.MaxResultTokens, atLeast(0)),
		"findThreshold":   set(d, &r.FindThreshold, betweenZeroAndOne),
		"routeThreshold":  set(d, &r.RouteThreshold, fraction),
		"learning":        set(d, &r.Learning, boolean),
		"fillArguments":   set(d, &r.FillArguments, boolean),
		"assist":          assistField(d, &r.Assist),
		"embeddings":      embeddingsField(d, &r.Embeddings),
		"accessLog":       accessLogField(d, &r.AccessLog),
		"capabilities":    set(d, &r.Capabilities, dict(list(text))),
		"classification":  classificationField(d, &r.Classification),
		"http": objectField(d, fields{
			"addr":           set(d, &r.HTTP.Addr, text),
			"allowedHosts":   set(d, &r.HTTP.AllowedHosts, list(text)),
			"allowedOrigins": set(d, &r.HTTP.AllowedOrigins, list(text)),
			"tokens":         tokensField(d, &r.HTTP.Tokens),
			"tlsCert":        tlsFileField(d, &r.HTTP.TLSCert),
			"tlsKey":         tlsFileField(d, &r.HTTP.TLSKey),
			"maxBody":        set(d, &r.HTTP.MaxBody, size),
			"maxBodyMemory":  set(d, &r.HTTP.MaxBodyMemory, size),
			"maxHeader":      set(d, &r.HTTP.MaxHeader, size),
			"maxBatch":       set(d, &r.HTTP.MaxBatch, atLeast(1)),
			"readTimeout":    set(d, &r.HTTP.ReadTimeout, duration(positive)),
			"maxConnections": set(d, &r.HTTP.MaxConnections, atLeast(1)),
			"maxSessions":    set(d, &r.HTTP.MaxSessions, atLeast(1)),
			"sessionTimeout": set(d, &r.HTTP.SessionTimeout, duration(positive)),
			"rate":           set(d, &r.HTTP.Rate, rate),
		}),
	}
}

// noToken replaces a token that is not known. No request can have it, so a mistake among
// the tokens locks clients out instead of letting them in.
const noToken = "\x00"

func tokensField(d *decoder, to *[]string) func(hujson.ObjectMember) {
	token := func(v hujson.Value) (string, error) {
		s, err := text(v)
		if err != nil {
			return "", err
		}
		var missing variables
		if s = d.expand(s, &missing); missing.any() {
			d.warn(v.StartOffset, "this token lets no client in: %s", missing)
			return noToken, nil
		}
		if s == "" {
			d.warn(v.StartOffset, "an empty token lets no client in; write ${TOKEN} and set TOKEN in the environment")
			return noToken, nil
		}
		if len(s) < secret.MinToken {
			d.shortTokens = append(d.shortTokens, place{d.source, v.StartOffset})
		}
		return s, nil
	}
	return func(m hujson.ObjectMember) {
		*to, d.shortTokens = []string{noToken}, nil
		set(d, to, list(token))(m)
	}
}

// checkTokens reports tokens that can be guessed, if other machines may try.
func checkTokens(d *decoder, c Config) {
	host, _, _ := net.SplitHostPort(c.Router.HTTP.Addr)
	if host == "localhost" || net.ParseIP(host).IsLoopback() {
		return
	}
	for _, at := range d.shortTokens {
		d.source = at.source
		d.warn(at.offset, "other machines reach %s, so a token needs at least %d characters; make one with 'openssl rand -hex 24'", c.Router.HTTP.Addr, secret.MinToken)
	}
}

// noFile replaces a file that is not known. A mistake must not make the router serve
// without TLS.
const noFile = "\x00"

func tlsFileField(d *decoder, to *string) func(hujson.ObjectMember) {
	path := func(v hujson.Value) (string, error) {
		s, err := text(v)
		if err != nil {
			return "", err
		}
		var missing variables
		if s = d.expand(s, &missing); missing.any() {
			d.warn(v.StartOffset, "nothing is served over HTTP without this file: %s", missing)
			return noFile, nil
		}
		return d.absolute(s), nil
	}
	return func(m hujson.ObjectMember) {
		*to, d.tls = noFile, place{d.source, m.Name.StartOffset}
		set(d, to, path)(m)
	}
}
