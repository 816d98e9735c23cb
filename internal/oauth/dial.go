package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

const (
	dialTimeout    = 10 * time.Second
	requestTimeout = 30 * time.Second
	maxHeaders     = 64 << 10
	maxRedirects   = 5
	agent          = "metarouter"
)

// NewHTTPClient returns a client for all requests on behalf of the server that do not go to the
// server itself: to its metadata and its issuers.
//
// # Where it connects to
//
// The server names URLs, so that the client must not be a way into networks that the server can't
// reach itself. Each connection is checked after the name was resolved. Permitted are:
//
//   - public addresses;
//   - addresses in private networks if all addresses of the server are private ones, or the server is
//     on this machine;
//   - addresses of this machine if the server's URL says localhost or such an address.
//
// All others are not: link-local ones such as 169.254.169.254, clouds' metadata services, unspecified,
// multicast and reserved ones. An IPv6 address that stands for an IPv4 address (mapped, NAT64, 6to4)
// counts as that one. The hosts that the configuration names, with their ports, are permitted whatever
// their addresses: the server, and [Settings].AuthServerMetadataURL, which counts as the server does.
//
// With a proxy (HTTPS_PROXY, HTTP_PROXY, NO_PROXY) it is the proxy that resolves names and
// connects. Then only addresses that stand in URLs are checked.
//
// # Requests and answers
//
// It requires https, except on this machine. It follows up to 5 redirects of a GET, but none of
// another method, since the body may hold secrets, none from https to http, and none to another host
// that is not public. It sends no cookies. It ends a request after 30 s, a dial after 10 s, and
// an answer's body with an error after 1 MiB. It keeps no connections, so that it needs no Close.
func NewHTTPClient(server Server) *http.Client {
	return newClient(reachOf(server), http.ProxyFromEnvironment)
}

// newClient returns a client for this reach. proxy is as in [http.Transport].
func newClient(r *reach, proxy func(*http.Request) (*url.URL, error)) *http.Client {
	t := &checked{reach: r, proxy: proxy}
	t.transport = &http.Transport{
		Proxy:                  proxy,
		DialContext:            (&net.Dialer{Timeout: dialTimeout, Resolver: r.resolver, ControlContext: t.control}).DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: maxHeaders,
		DisableKeepAlives:      true,
	}
	return &http.Client{Transport: t, CheckRedirect: checkRedirect, Timeout: requestTimeout}
}

// checked sends requests to permitted addresses only.
type checked struct {
	reach     *reach
	proxy     func(*http.Request) (*url.URL, error)
	transport *http.Transport
}

// A hop is one request of a chain of redirects. Its context carries it to the dial.
type hop struct {
	host    string
	named   bool // its host may have any address
	away    bool // it was redirected away from the first host
	proxied bool // a proxy dials
}

type (
	hopKey  struct{}
	awayKey struct{}
)

// permit returns an error if the hop may not go to an address of this area.
func (t *checked) permit(ctx context.Context, h *hop, a area) error {
	switch {
	case h.away && a != public:
		return blocked("it redirects to %s, which is %v", h.host, a)
	case h.named:
		return nil
	}
	return t.reach.permit(ctx, h.host, a)
}

// control checks an address before it is dialed. It runs after the name was resolved, so that a
// name can't resolve to another address afterwards.
func (t *checked) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	h, ok := ctx.Value(hopKey{}).(*hop)
	switch {
	case err != nil:
		return err
	case !ok:
		return errors.New("a dial without a request") // can't be
	case h.proxied:
		return nil
	}
	return t.permit(ctx, h, areaOf(to.Addr()))
}

// RoundTrip sends a request after it has checked its URL.
func (t *checked) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.send(r)
	if err != nil && r.Body != nil {
		r.Body.Close()
	}
	return resp, err
}

func (t *checked) send(r *http.Request) (*http.Response, error) {
	if err := t.reach.check(r.Context(), r.URL); err != nil {
		return nil, err
	}
	away := r.Context().Value(awayKey{}) != nil
	h := &hop{host: r.URL.Hostname(), named: t.reach.names(r.URL), away: away}
	if a, literal := literalArea(h.host); literal {
		if err := t.permit(r.Context(), h, a); err != nil {
			return nil, err
		}
	}
	proxy, err := t.proxy(r)
	if err != nil {
		return nil, errors.New("HTTPS_PROXY or HTTP_PROXY is no url of a proxy") // the error may hold its password
	}
	h.proxied = proxy != nil
	sent := r.Clone(context.WithValue(r.Context(), hopKey{}, h))
	if sent.Header.Get("User-Agent") == "" {
		sent.Header.Set("User-Agent", agent)
	}
	resp, err := t.transport.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxBody)
	return resp, nil
}

// checkRedirect says which redirects are followed, and marks those to another host.
func checkRedirect(next *http.Request, via []*http.Request) error {
	switch before := via[len(via)-1]; {
	case via[0].Method != http.MethodGet:
		return blocked("it redirects a %s request, which may hold secrets", via[0].Method)
	case len(via) > maxRedirects:
		return blocked("it redirects more than %d times", maxRedirects)
	case before.URL.Scheme == "https" && next.URL.Scheme != "https":
		return blocked("it redirects from https to %s", shown(next.URL.String()))
	case next.Context().Value(awayKey{}) == nil && !SameOrigin(next.URL, via[0].URL):
		*next = *next.WithContext(context.WithValue(next.Context(), awayKey{}, true))
	}
	return nil
}

var errTooLong = errors.New("the answer is longer than it may be")

// readAll reads the body of an answer. The error is errTooLong if it is longer than most.
func readAll(body io.ReadCloser, most int64) ([]byte, error) {
	data, err := io.ReadAll(http.MaxBytesReader(nil, body, most))
	if errors.As(err, new(*http.MaxBytesError)) {
		err = errTooLong
	}
	return data, err
}

// shown returns a URL for an error: without query, fragment and password, and not too long.
func shown(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "what is no url"
	}
	return clip((&url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String())
}

// clip returns a text of a stranger's for an error, at most 200 bytes and quoted if that is needed.
func clip(text string) string {
	const most = 200
	cut := text
	if len(cut) > most {
		cut = cut[:most-3] + "..."
	}
	for _, c := range []byte(cut) {
		if c <= ' ' || c >= 0x7f || c == '"' {
			return fmt.Sprintf("%q", cut)
		}
	}
	return cut
}
