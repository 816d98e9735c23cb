package config

import (
	"sync"
	"unicode"

	"github.com/tailscale/hujson"
)

// defaultRouter returns the settings of a file without any.
var defaultRouter = sync.OnceValue(func() Router {
	r := defaults[Router](atRouter)
	r.FindThreshold = 0 // package selector has the default
	return r
})

// defaultServer returns an entry without keys.
var defaultServer = sync.OnceValue(func() Server { return defaults[Server](atEntry) })

func routerFields(d *decoder, r *Router) fields {
	return d.keys(r, fields{
		"profiles": profilesField(d, &r.Profiles),
		"cluster":  clusterField(d),
		"http": objectField(d, d.keys(&r.HTTP, fields{
			"addr":         addressField(d, &r.HTTP.Addr),
			"publicUrl":    publicURLField(d, &r.HTTP.PublicURL),
			"oauth":        issuersField(d, &r.HTTP.Issuers),
			"certificates": certificatesField(d, &r.HTTP.Certificates),
		})),
	})
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }

// noFile replaces a file that is not known. A mistake must not make the router serve
// without TLS.
const noFile = "\x00"

// tlsFile reads the path of a file for TLS.
func (d texts) tlsFile(v hujson.Value) (string, error) {
	s, missing, err := d.complete(v)
	if missing.any() {
		d.mistake(v.StartOffset, "nothing is served over HTTP without this file: %s", missing)
		return noFile, nil
	}
	return d.absolute(s), err
}
