package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	api "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	maxErrorBody = 64 << 10
	maxMessage   = 1000 // bytes of an API's error message
)

// newClient returns OpenAI's client for the base URL. It makes each request once: whether
// another attempt may help depends on the answer too, which only run knows. It does not
// read the environment, whose key belongs to another origin.
func newClient(base *url.URL, client *http.Client) api.Client {
	plain := *base
	plain.RawQuery = ""
	options := []option.RequestOption{
		option.WithBaseURL(plain.String()),
		option.WithHTTPClient(client),
		option.WithMaxRetries(0),
		option.WithMiddleware(boundErrors),
	}
	for key, values := range base.Query() { // Azure's api-version
		for _, value := range values {
			options = append(options, option.WithQueryAdd(key, value))
		}
	}
	return api.Client{Options: options}
}

// boundErrors bounds the bodies of errors, which OpenAI's client reads to their end.
func boundErrors(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	resp, err := next(r)
	if err == nil && resp.StatusCode >= 400 {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxErrorBody), resp.Body}
	}
	return resp, err
}

// send makes one request, and returns the response with its body unread and the key that
// was sent. Its error is an [*apiError] if the status is not a success, and a [*linkError]
// if no response came.
func (p *Provider) send(ctx context.Context, method, path string, body []byte) (resp *http.Response, key string, err error) {
	var options []option.RequestOption
	if key = strings.TrimSpace(os.Getenv(p.options.KeyVariable)); key != "" {
		options = append(options, option.WithAPIKey(key))
	}
	var content any
	if body != nil {
		content = body
	}
	err = p.client.Execute(ctx, method, path, content, &resp, options...)
	if ctx.Err() != nil {
		if resp != nil {
			resp.Body.Close()
		}
		return nil, key, context.Cause(ctx)
	}
	if refused, ok := errors.AsType[*redirectError](err); ok {
		return nil, key, refused
	}
	switch {
	case resp != nil && resp.StatusCode/100 != 2: // whatever the client made of the body
		defer resp.Body.Close()
		return nil, key, p.refusal(resp, key)
	case err != nil:
		return nil, key, &linkError{"can't reach " + p.base.Host, withoutURL(err)}
	}
	return resp, key, nil
}

// sameOrigin follows redirects only within the origin, and only of the same method.
func sameOrigin(base *url.URL) func(*http.Request, []*http.Request) error {
	return func(r *http.Request, via []*http.Request) error {
		switch {
		case r.URL.Scheme != base.Scheme || r.URL.Host != base.Host:
			return &redirectError{fmt.Sprintf("%s redirects to %s://%s, which is another origin and gets nothing", base.Host, r.URL.Scheme, r.URL.Host)}
		case r.Method != via[0].Method:
			return &redirectError{fmt.Sprintf("%s redirects what was posted to a page", base.Host)}
		case len(via) >= 5:
			return &redirectError{base.Host + " redirects without end"}
		}
		return nil
	}
}

// A redirectError says why a redirect is not followed.
type redirectError struct{ reason string }

func (e *redirectError) Error() string { return e.reason }

// A linkError says why no answer came, or not all of it.
type linkError struct {
	what string
	err  error
}

func (e *linkError) Error() string { return e.what + ": " + e.err.Error() }
func (e *linkError) Unwrap() error { return e.err }

// An apiError is an error that the API reports.
type apiError struct {
	status     int    // of HTTP; of an error within an answer the code, or 0
	kind       string // its type, or code; may be empty
	message    string
	retryAfter time.Duration // 0 if unknown
}

func (e *apiError) Error() string {
	what := "the API failed"
	if e.status > 0 {
		what = strings.TrimSpace(fmt.Sprintf("the API answered %d %s", e.status, http.StatusText(e.status)))
	}
	if e.kind != "" {
		what += " (" + e.kind + ")"
	}
	if e.message != "" {
		what += ": " + e.message
	}
	return what
}

// transient reports whether another attempt may succeed after err.
func transient(err error) bool {
	if e, ok := errors.AsType[*apiError](err); ok {
		if e.status == http.StatusTooManyRequests {
			return e.kind != "insufficient_quota"
		}
		return e.status >= 500 && e.status != http.StatusNotImplemented
	}
	_, ok := errors.AsType[*linkError](err)
	return ok
}

// without returns the error without the key, which some APIs repeat, and with a message
// of bounded length.
func (e *apiError) without(key string) *apiError {
	if key != "" {
		e.message = strings.ReplaceAll(e.message, key, "(the key)")
		e.kind = strings.ReplaceAll(e.kind, key, "(the key)")
	}
	if len(e.message) > maxMessage {
		e.message = strings.ToValidUTF8(e.message[:maxMessage], "") + "…"
	}
	return e
}

// refusal returns the error that a response reports.
func (p *Provider) refusal(resp *http.Response, key string) *apiError {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	raw := wire.Member(body, "error")
	if raw == nil {
		raw = body
	}
	e := readError(raw)
	e.status = resp.StatusCode
	if e.message == "" {
		e.message = strings.Join(strings.Fields(string(body)), " ")
	}
	e.retryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	if e.status == http.StatusUnauthorized && key == "" {
		e.message = strings.TrimSpace(fmt.Sprintf("%s; no key was sent, as %s is not set", e.message, p.options.KeyVariable))
	}
	return e.without(key)
}

// readError reads the error object of an API.
func readError(raw []byte) *apiError {
	if text, ok := wire.String(raw); ok { // Ollama's is a string
		return &apiError{message: text}
	}
	var object struct {
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	_ = json.Unmarshal(raw, &object)
	code, _ := wire.String(object.Code)
	e := &apiError{kind: cmp.Or(code, object.Type), message: object.Message}
	if status, err := strconv.Atoi(string(object.Code)); err == nil && status >= 400 && status < 600 {
		e.status = status
	}
	return e
}

// retryAfter reads a Retry-After header: seconds or a date (RFC 9110, section 10.2.3). It
// returns 0 if the value is neither.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 && seconds < 1e9 {
		return time.Duration(seconds * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// withoutURL returns the error without its URL, whose query may contain a secret.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

var errTooLarge = errors.New("the answer is too large")

func readAll(r io.Reader, limit int) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return nil, &linkError{"the answer was cut off", err}
	case len(body) > limit:
		return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, limit)
	}
	return body, nil
}
