package config

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/tailscale/hujson"
)

func defaultRouter() Router {
	r := Router{
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
		Audit:          Audit{MaxSize: 10 << 20, MaxFiles: 10},
		HTTP: HTTP{
			Addr: "127.0.0.1:8787", MaxBody: 16 << 20, MaxBodyMemory: 256 << 20, MaxHeader: 64 << 10, MaxBatch: 100,
			ReadTimeout: time.Minute, MaxConnections: 4096, MaxSessions: 1000, SessionTimeout: 30 * time.Minute,
		},
	}
	r.Gateway.Name = "metarouter"
	return r
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
		"audit":           auditField(d, &r.Audit),
		"capabilities":    set(d, &r.Capabilities, dict(list(text))),
		"classification":  classificationField(d, &r.Classification),
		"profiles":        profilesField(d, &r.Profiles),
		"cluster":         clusterField(d),
		"gateway": objectField(d, fields{
			"name":   set(d, &r.Gateway.Name, gatewayName),
			"prefix": set(d, &r.Gateway.Prefix, gatewayPrefix),
		}),
		"http": objectField(d, fields{
			"addr":           addressField(d, &r.HTTP.Addr),
			"allowedHosts":   set(d, &r.HTTP.AllowedHosts, list(text)),
			"allowedOrigins": set(d, &r.HTTP.AllowedOrigins, list(text)),
			"publicUrl":      publicURLField(d, &r.HTTP.PublicURL),
			"tokens":         tokensField(d, &r.HTTP.Tokens),
			"oauth":          issuersField(d, &r.HTTP.Issuers),
			"clientCA":       tlsFileField(d, &r.HTTP.ClientCA, &d.clientCA),
			"certificates":   certificatesField(d, &r.HTTP.Certificates),
			"tlsCert":        tlsFileField(d, &r.HTTP.TLSCert, &d.tls),
			"tlsKey":         tlsFileField(d, &r.HTTP.TLSKey, &d.tls),
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

// maxGateway bounds each text of "gateway", in bytes.
const maxGateway = 64

func gatewayName(v hujson.Value) (string, error) {
	s, err := text(v)
	if err == nil && (s == "" || len(s) > maxGateway || strings.ContainsFunc(s, unprintable)) {
		err = fmt.Errorf("must have 1 to %d printable characters", maxGateway)
	}
	return s, err
}

func gatewayPrefix(v hujson.Value) (string, error) {
	s, err := text(v)
	if err == nil && (len(s) > maxGateway || strings.ContainsFunc(s, func(r rune) bool { return r == ' ' || unprintable(r) })) {
		err = fmt.Errorf(`must have at most %d printable characters without spaces; write it like "gw."`, maxGateway)
	}
	return s, err
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }

// noFile replaces a file that is not known. A mistake must not make the router serve
// without TLS.
const noFile = "\x00"

// tlsFileField returns the function that decodes the path of a file for TLS, and sets at to its
// place.
func tlsFileField(d *decoder, to *string, at *place) func(hujson.ObjectMember) {
	path := func(v hujson.Value) (string, error) {
		s, err := text(v)
		if err != nil {
			return "", err
		}
		var missing variables
		if s = d.expand(s, &missing); missing.any() {
			d.mistake(v.StartOffset, "nothing is served over HTTP without this file: %s", missing)
			return noFile, nil
		}
		return d.absolute(s), nil
	}
	return func(m hujson.ObjectMember) {
		*to, *at = noFile, place{d.source, m.Name.StartOffset}
		set(d, to, path)(m)
	}
}
