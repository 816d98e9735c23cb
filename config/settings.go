package config

import (
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

func routerFields(d *decoder, r *Router) fields {
	return d.keys(r, fields{
		"assist":         assistField(d, &r.Assist),
		"embeddings":     embeddingsField(d, &r.Embeddings),
		"accessLog":      accessLogField(d, &r.AccessLog),
		"audit":          auditField(d, &r.Audit),
		"classification": classificationField(d, &r.Classification),
		"profiles":       profilesField(d, &r.Profiles),
		"cluster":        clusterField(d),
		"http": objectField(d, d.keys(&r.HTTP, fields{
			"addr":         addressField(d, &r.HTTP.Addr),
			"publicUrl":    publicURLField(d, &r.HTTP.PublicURL),
			"tokens":       tokensField(d, &r.HTTP.Tokens),
			"oauth":        issuersField(d, &r.HTTP.Issuers),
			"clientCA":     tlsFileField(d, &r.HTTP.ClientCA),
			"certificates": certificatesField(d, &r.HTTP.Certificates),
			"tlsCert":      tlsFileField(d, &r.HTTP.TLSCert),
			"tlsKey":       tlsFileField(d, &r.HTTP.TLSKey),
		})),
	})
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }

// noFile replaces a file that is not known. A mistake must not make the router serve
// without TLS.
const noFile = "\x00"

// tlsFileField returns the function that decodes the path of a file for TLS.
func tlsFileField(d *decoder, to *string) func(hujson.ObjectMember) {
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
		*to = noFile
		set(d, to, path)(m)
	}
}
