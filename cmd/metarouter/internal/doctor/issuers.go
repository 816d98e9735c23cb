package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/bearer"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// An Issuer is the answer of an identity provider of "http.oauth".
type Issuer struct {
	URL    string
	Keys   int   // that can verify tokens
	Others int   // keys that can't
	Err    error // why its metadata or keys can't be read, or it can't be asked about tokens; nil if it works
}

// AskIssuers reads the metadata and the keys of the issuers of the configuration, all at once,
// for [Case]. It takes 10 s at most, and asks nothing without issuers.
func AskIssuers(ctx context.Context, h config.HTTP) []Issuer {
	var asking sync.WaitGroup
	all := make([]Issuer, len(h.Issuers))
	for n, i := range h.Issuers {
		if i.URL == "" { // its mistake is a problem of the configuration
			continue
		}
		asking.Go(func() {
			a := &all[n]
			a.URL = i.URL
			a.Keys, a.Others, a.Err = bearer.Probe(ctx, bearer.Issuer{
				URL: i.URL, KeysURL: i.KeysURL, ClientID: i.ClientID, ClientSecret: i.ClientSecret, Introspect: i.Introspect && i.Secret.Text == "",
			})
		})
	}
	asking.Wait()
	return slices.DeleteFunc(all, func(i Issuer) bool { return i.URL == "" })
}

// checkIssuers says of each issuer whether tokens of it can be verified.
func checkIssuers(x *findings, c Case) {
	for _, i := range c.Issuers {
		fault := func(what, fix string) {
			x.add(Broken, fmt.Sprintf("the issuer %s of \"http.oauth\" %s, so its users are not let in.", i.URL, what), fix)
		}
		switch {
		case errors.Is(i.Err, oauth.ErrUnreachable), errors.Is(i.Err, context.DeadlineExceeded):
			fault(fmt.Sprintf("can't be reached (%v)", i.Err), "check its \"url\" and the network: this machine must reach it, also through a proxy (HTTPS_PROXY)")
		case i.Err != nil && i.Keys+i.Others > 0: // its keys could be read
			fault(fmt.Sprintf("can't be asked about tokens that are no JWT (%v)", i.Err),
				"write the \"clientId\" and \"clientSecret\" of a client that the issuer lets introspect tokens, or remove \"introspect\" if its tokens are JWTs")
		case i.Err != nil:
			fault(fmt.Sprintf("gives tokens that can't be verified (%v)", i.Err),
				"write its \"url\" byte for byte as its tokens name it in \"iss\"; if its metadata are elsewhere, write the address of its keys into \"jwksUrl\"")
		case i.Keys == 0:
			fault(fmt.Sprintf("has no key that can verify tokens (%d others)", i.Others),
				"let it sign access tokens with RS256, ES256 or another asymmetric algorithm; an RSA key needs 2048 bits")
		default:
			x.add(Note, fmt.Sprintf("the issuer %s of \"http.oauth\" answers; it has %s that can verify tokens.", i.URL, prose.Count(i.Keys, "key")), "")
		}
	}
}
