package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/urls"
)

// maxDocument bounds the bytes of a document, and so the lists in it.
const maxDocument = 128 << 10

var (
	// ErrUnreachable is wrapped by errors of [Discover] if the server or an issuer did not answer, or
	// with a status of 500 or above: it may answer later.
	ErrUnreachable = errors.New("no answer")

	// errFailing is wrapped by errors of answers with a status of 500 or above.
	errFailing = fmt.Errorf("%w that can be used", ErrUnreachable)

	// errAbsent is wrapped by errors of documents that are not there: a status of 400 to 499, or an
	// answer that is no JSON, such as a page for people.
	errAbsent = errors.New("no document")
)

// A fetcher reads the metadata of servers and issuers. It is not oauthex that does, which has no
// device endpoint, wants PKCE for each grant, refuses the issuers of private networks, and does not
// say whether a document is absent.
type fetcher struct {
	client *http.Client
	reach  *reach
}

// get reads the JSON document at the URL into v. The error names the URL without its query.
func (f fetcher) get(ctx context.Context, at string, v any) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", shown(at), err)
		}
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return errors.New("this is no url") // the error may hold the query
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("MCP-Protocol-Version", "2025-11-25")
	resp, err := f.client.Do(r)
	if err != nil {
		return unreachable(err)
	}
	defer resp.Body.Close()
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode >= 500:
		return fmt.Errorf("%w: it answers %d %s", errFailing, resp.StatusCode, http.StatusText(resp.StatusCode))
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%w: it answers %d %s", errAbsent, resp.StatusCode, http.StatusText(resp.StatusCode))
	case media != "application/json" && !strings.HasSuffix(media, "+json"):
		return fmt.Errorf("%w: it answers with the content type %s, not application/json", errAbsent, oneLine(media))
	}
	body, err := readAll(resp.Body, maxDocument)
	if err != nil {
		return unreachable(err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("its JSON can't be used: %s", oneLine(err.Error()))
	}
	return nil
}

// issuer returns the issuer as it describes itself: as RFC 8414 has it, else as OpenID Connect has
// it. The error wraps errAbsent without metadata.
func (f fetcher) issuer(ctx context.Context, id string) (*Issuer, error) {
	u, err := url.Parse(id)
	if err != nil || len(id) > maxURL || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("the issuer %s is no url without query and fragment", shown(id))
	}
	if err := f.reach.check(ctx, u); err != nil {
		return nil, fmt.Errorf("the issuer can't be used: %w", err)
	}
	const rfc, openID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	origin, path := originOf(u), strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{origin + rfc + path, origin + openID + path, origin + path + openID} // in the order of revision 2025-11-25
	return first(ctx, f, slices.Compact(places), func(at string, found *Issuer) error {
		if found.ID == "" && found.TokenEndpoint == "" {
			return fmt.Errorf("%s: %w: its JSON names no issuer", shown(at), errAbsent)
		}
		// RFC 8414, section 3.3: "If these values are not identical, the data contained in the
		// response MUST NOT be used." A slash at the end makes no other issuer.
		if strings.TrimSuffix(found.ID, "/") != strings.TrimSuffix(id, "/") {
			return fmt.Errorf("the issuer %s describes itself as %s at %s; no login is possible until who runs it corrects this",
				shown(id), oneLine(found.ID), shown(at))
		}
		return nil
	})
}

// checkEndpoints checks the URLs of an issuer, of which the needed ones must be there.
func (f fetcher) checkEndpoints(ctx context.Context, i *Issuer, needed ...*string) error {
	for _, e := range []struct {
		name string
		url  *string
	}{
		{"authorization_endpoint", &i.AuthorizationEndpoint}, {"token_endpoint", &i.TokenEndpoint}, {"registration_endpoint", &i.RegistrationEndpoint},
		{"device_authorization_endpoint", &i.DeviceEndpoint}, {"revocation_endpoint", &i.RevocationEndpoint},
		{"introspection_endpoint", &i.IntrospectionEndpoint}, {"jwks_uri", &i.KeysURL},
	} {
		u, err := url.Parse(*e.url)
		switch {
		case *e.url == "" && !slices.Contains(needed, e.url):
			continue
		case *e.url == "":
			err = errors.New("is missing")
		case err != nil || len(*e.url) > maxURL || u.Fragment != "":
			err = fmt.Errorf("is no url without fragment of at most %d bytes", maxURL)
		default:
			if err = f.reach.check(ctx, u); err == nil {
				continue
			}
			err = fmt.Errorf("is wrong: %w", err)
		}
		return fmt.Errorf("the issuer %s can't be used: its %s %w", shown(i.ID), e.name, err)
	}
	return nil
}

// Describe reads the metadata of an issuer by its identifier, a URL. The issuer counts as named by
// the configuration, so that its host may have any address; c is the client that [NewHTTPClient]
// returns for a server with its URL.
//
// The issuer in the metadata must be the identifier byte for byte, since tokens are compared with
// it (RFC 8414, section 3.3). All its endpoints must be ones that [NewHTTPClient] permits. Each of
// them may be missing, and it need not support PKCE. The error wraps [ErrUnreachable] if the issuer
// did not answer.
func Describe(ctx context.Context, c *http.Client, id string) (*Issuer, error) {
	f := fetcher{c, reachOf(Server{URL: id})}
	i, err := f.issuer(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case i.ID != id:
		return nil, fmt.Errorf("the issuer %s describes itself as %s; write exactly that into its url", shown(id), oneLine(i.ID))
	}
	return i, f.checkEndpoints(ctx, i)
}

// unreachable returns the error of a request without its URL: the query may hold a secret.
func unreachable(err error) error {
	if block, ok := errors.AsType[*blockedError](err); ok {
		return block
	}
	if err == errTooLong {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, urls.Cause(err))
}

// first returns the first of the documents that is there, unless check finds a fault in it. An answer of 500 and above passes the turn,
// too, but then no document is an error that is not errAbsent: who can keep one document
// from us must not make us use another way. No connection is the same for all, so it ends the search.
func first[T any](ctx context.Context, f fetcher, places []string, check func(at string, found *T) error) (*T, error) {
	var failed error
	for _, at := range places {
		found := new(T)
		err := f.get(ctx, at, found)
		if err == nil {
			err = check(at, found)
		}
		absent := errors.Is(err, errAbsent)
		if !absent && !errors.Is(err, errFailing) {
			return found, err // nil, or one that ends the search
		}
		if failed == nil || !absent && errors.Is(failed, errAbsent) {
			failed = err
		}
	}
	return nil, failed
}
