package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/urls"
)

// A fetcher reads the metadata of servers and issuers.
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
	if err := f.reach.check(ctx, r.URL); err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("MCP-Protocol-Version", "2025-11-25")
	resp, err := f.client.Do(r)
	if err != nil {
		return unreachable(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 500:
		return &failureError{resp.StatusCode}
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%w: it answers %d %s", errAbsent, resp.StatusCode, http.StatusText(resp.StatusCode))
	case !isJSON(resp.Header.Get("Content-Type")):
		return fmt.Errorf("%w: it answers with the content type %s, not application/json", errAbsent, clip(resp.Header.Get("Content-Type")))
	}
	body, err := io.ReadAll(&bounded{resp.Body, maxBody})
	switch {
	case errors.Is(err, errTooLong):
		return errTooLong
	case err != nil:
		return unreachable(err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("its JSON can't be used: %s", clip(err.Error()))
	}
	return nil
}

// issuer returns the issuer's metadata. The error wraps errAbsent without metadata.
func (f fetcher) issuer(ctx context.Context, id string) (*issuerDocument, error) {
	u, err := url.Parse(id)
	if err != nil || len(id) > maxURL || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("the issuer %s is no url without query and fragment", shown(id))
	}
	if err := f.reach.check(ctx, u); err != nil {
		return nil, fmt.Errorf("the issuer can't be used: %w", err)
	}
	var found *issuerDocument
	err = first(issuerURLs(u), func(at string) error {
		var document issuerDocument
		if err := f.get(ctx, at, &document); err != nil {
			return err
		}
		if document.Issuer == "" && document.TokenEndpoint == "" {
			return fmt.Errorf("%s: %w: its JSON names no issuer", shown(at), errAbsent)
		}
		// RFC 8414, section 3.3: "If these values are not identical, the data contained in the
		// response MUST NOT be used." A slash at the end makes no other issuer.
		if strings.TrimSuffix(document.Issuer, "/") != strings.TrimSuffix(id, "/") {
			return fmt.Errorf("the issuer %s describes itself as %s at %s; no login is possible until who runs it corrects this",
				shown(id), clip(document.Issuer), shown(at))
		}
		found = &document
		return nil
	})
	return found, err
}

// An endpoint is a URL in an issuer's document.
type endpoint struct {
	name, url string
	needed    bool
}

// checkEndpoints checks the URLs of the issuer's document.
func (f fetcher) checkEndpoints(ctx context.Context, issuer string, all []endpoint) error {
	for _, e := range all {
		u, err := url.Parse(e.url)
		switch {
		case e.url == "" && !e.needed:
			continue
		case e.url == "":
			err = errors.New("is missing")
		case err != nil || len(e.url) > maxURL || u.Fragment != "":
			err = fmt.Errorf("is no url without fragment of at most %d bytes", maxURL)
		default:
			if err = f.reach.check(ctx, u); err == nil {
				continue
			}
			err = fmt.Errorf("is wrong: %w", err)
		}
		return fmt.Errorf("the issuer %s can't be used: its %s %w", shown(issuer), e.name, err)
	}
	return nil
}

// unreachable returns the error of a request without its URL: the query may hold a secret.
func unreachable(err error) error {
	if block, ok := errors.AsType[*blockedError](err); ok {
		return block
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, urls.Cause(err))
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

// first reads the first of the documents that is there. An answer of 500 and above passes the turn,
// too, but then no document is an error that is not errAbsent: who can keep one document
// from us must not make us use another way. No connection is the same for all, so it ends the search.
func first(urls []string, get func(at string) error) error {
	var failed error
	for _, at := range urls {
		err := get(at)
		var status *failureError
		switch {
		case errors.Is(err, errAbsent):
			failed = cmp.Or(failed, err)
		case errors.As(err, &status):
			if failed == nil || errors.Is(failed, errAbsent) {
				failed = err
			}
		default:
			return err // nil, or one that ends the search
		}
	}
	return failed
}
