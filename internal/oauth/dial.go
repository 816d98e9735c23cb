package oauth

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
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
func NewHTTPClient(server Server) *http.Client { return reachOf(server).client() }

// A reach says which addresses the requests on behalf of a server may go to, and sends them there.
type reach struct {
	named     []*url.URL // the URLs in the configuration: the server, and where its issuer describes itself
	resolver  *net.Resolver
	transport *http.Transport
}

func reachOf(s Server) *reach {
	r := &reach{resolver: net.DefaultResolver}
	for _, raw := range []string{s.URL, s.Settings.AuthServerMetadataURL} {
		if u, err := url.Parse(raw); err == nil && u.Host != "" {
			r.named = append(r.named, u)
		}
	}
	r.transport = &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            r.dial,
		TLSHandshakeTimeout:    dialTimeout,
		MaxResponseHeaderBytes: maxHeaders,
		DisableKeepAlives:      true,
	}
	return r
}

func (r *reach) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, Resolver: r.resolver, ControlContext: r.control}
	return d.DialContext(ctx, network, address)
}

func (r *reach) client() *http.Client {
	return &http.Client{Transport: r, CheckRedirect: checkRedirect, Timeout: requestTimeout}
}

// A hop is one request of a chain of redirects. Its context carries it from a redirect to the dial.
type hop struct {
	host    string
	named   bool // its host may have any address
	away    bool // it was redirected away from the first host
	proxied bool // a proxy dials
}

type hopKey struct{}

// control checks an address before it is dialed. It runs after the name was resolved, so that a
// name can't resolve to another address afterwards.
func (r *reach) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	h, _ := ctx.Value(hopKey{}).(hop)
	switch {
	case err != nil:
		return err
	case h.proxied:
		return nil
	}
	return r.permit(ctx, h, areaOf(to.Addr()))
}

// RoundTrip sends a request after it has checked its URL. Its body is a text in memory, which needs no Close.
func (r *reach) RoundTrip(req *http.Request) (*http.Response, error) {
	h, _ := req.Context().Value(hopKey{}).(hop)
	if err := r.checkHop(req.Context(), req.URL, &h); err != nil {
		return nil, err
	}
	proxy, err := r.transport.Proxy(req)
	if err != nil {
		return nil, errors.New("HTTPS_PROXY or HTTP_PROXY is no url of a proxy") // the error may hold its password
	}
	h.proxied = proxy != nil
	sent := req.Clone(context.WithValue(req.Context(), hopKey{}, h))
	if sent.Header.Get("User-Agent") == "" {
		sent.Header.Set("User-Agent", agent)
	}
	resp, err := r.transport.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxBody)
	return resp, nil
}

// check returns an error if requests may not go to the URL, as far as the URL tells: the address of
// a name is checked when it is dialed.
func (r *reach) check(ctx context.Context, u *url.URL) error { return r.checkHop(ctx, u, new(hop)) }

// checkHop checks the URL of a hop, and completes the hop by it.
func (r *reach) checkHop(ctx context.Context, u *url.URL, h *hop) error {
	a, literal := literalArea(u.Hostname())
	h.host, h.named = u.Hostname(), slices.ContainsFunc(r.named, func(named *url.URL) bool { return SameOrigin(u, named) })
	switch {
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return blocked("%s is no https url", shown(u.String()))
	case u.User != nil:
		return blocked("%s has a name or a password in it", shown(u.String()))
	case u.Scheme == "http" && (!literal || a != loopback):
		return blocked("%s is not https", shown(u.String()))
	case literal:
		return r.permit(ctx, *h, a)
	}
	return nil
}

// permit returns an error if the hop may not go to an address of this area.
func (r *reach) permit(ctx context.Context, h hop, a area) error {
	switch {
	case h.away && a != public:
		return blocked("it redirects to %s, which is %v", h.host, a)
	case h.named, a == public, a != nowhere && a <= r.area(ctx):
		return nil
	case a == nowhere:
		return blocked("%s is an address that is %v", h.host, a)
	case a == loopback:
		return blocked(`%s is %v, and the server or issuer whose url is configured is not, or that url does not say "localhost"`, h.host, a)
	}
	return blocked("%s is %v, and the server or issuer whose url is configured is not", h.host, a)
}

// area returns the area of the most private URL that the configuration names. A name has
// the area of its least private address, and never counts as this machine: the owner of a name
// chooses its addresses, and must not open this machine to strangers by that.
func (r *reach) area(ctx context.Context) area {
	most := public
	for _, u := range r.named {
		a, ok := literalArea(u.Hostname())
		if !ok {
			a = r.areaOfName(ctx, u.Hostname())
		}
		if a != nowhere {
			most = max(most, a)
		}
	}
	return most
}

func (r *reach) areaOfName(ctx context.Context, name string) area {
	addresses, err := r.resolver.LookupNetIP(ctx, "ip", name)
	if err != nil || len(addresses) == 0 {
		return public
	}
	least := private
	for _, ip := range addresses {
		a := areaOf(ip)
		if a == nowhere {
			return public
		}
		least = min(least, a)
	}
	return least
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
	case !SameOrigin(next.URL, via[0].URL):
		*next = *next.WithContext(context.WithValue(next.Context(), hopKey{}, hop{away: true}))
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
	return oneLine((&url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String())
}
