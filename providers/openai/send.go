package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/option"

	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	maxErrorBody = 64 << 10
	maxReason    = 1000 // bytes
)

// A failure says why a request has no answer, or not all of it.
type failure struct {
	status    int // of HTTP; of an error within an answer the code, or 0
	reason    string
	transient bool // another attempt may succeed
}

func (f *failure) Error() string { return f.reason }

// send makes a request, at most maxTries times while failures are transient, and has read take
// successful responses. It returns how often it was made.
func (p *provider) send(ctx context.Context, maxTries int, method, path string, body any, read func(*http.Response) error) (tries int, err error) {
	key := strings.TrimSpace(os.Getenv(p.options.KeyVariable))
	attempt := func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		tries++
		response, failed := next(r)
		redirect, _ := errors.AsType[*failure](failed)
		switch {
		case redirect != nil:
			err = redirect
		case failed != nil:
			err = &failure{reason: fmt.Sprintf("can't reach %s: %v", p.base.Host, urls.Cause(failed)), transient: true}
		case response.StatusCode/100 != 2:
			err = p.refusal(response, key == "")
		default:
			err = read(response)
		}
		header := make(http.Header)
		if response != nil {
			response.Body.Close()
			header = response.Header
		}
		f, _ := errors.AsType[*failure](err)
		header.Set("X-Should-Retry", strconv.FormatBool(f != nil && f.transient))
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: http.NoBody}, nil // OpenAI's client reads without a bound
	}
	deadline, _ := ctx.Deadline()
	options := []option.RequestOption{
		option.WithMiddleware(attempt), option.WithMaxRetries(maxTries - 1),
		option.WithMaxRetryDelay(max(1, min(p.options.MaxWait, time.Until(deadline)))),
	}
	if key != "" {
		options = append(options, option.WithAPIKey(key))
	}
	failed := p.client.Execute(ctx, method, path, body, nil, options...)
	if ctx.Err() != nil {
		return tries, context.Cause(ctx)
	}
	if f, ok := errors.AsType[*failure](err); ok && key != "" {
		f.reason = strings.ReplaceAll(f.reason, key, "(the key)") // which some APIs repeat
	}
	if err == nil && tries == 0 {
		err = failed
	}
	return tries, err
}

// redirect follows redirects only within the origin, and only of the same method.
func (p *provider) redirect(r *http.Request, via []*http.Request) error {
	reason := ""
	switch {
	case r.URL.Scheme != p.base.Scheme || r.URL.Host != p.base.Host:
		reason = fmt.Sprintf("to %s://%s, which is another origin and gets nothing", r.URL.Scheme, r.URL.Host)
	case r.Method != via[0].Method:
		reason = "what was posted to a page"
	case len(via) >= 5:
		reason = "without end"
	default:
		return nil
	}
	return &failure{reason: p.base.Host + " redirects " + reason}
}

// refusal returns the failure that a response reports.
func (p *provider) refusal(response *http.Response, noKey bool) *failure {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	raw := wire.Member(body, "error")
	if raw == nil {
		raw = body
	}
	f := reported(raw, response.StatusCode, strings.Join(strings.Fields(string(body)), " "))
	if after := response.Header.Get("Retry-After"); after != "" {
		f.reason += "; Retry-After: " + after
	}
	if f.status == http.StatusUnauthorized && noKey {
		f.reason += fmt.Sprintf("; no key was sent, as %s is not set", p.options.KeyVariable)
	}
	return f
}

// reported returns the failure in the error object of an API. If status is 0, the code in the
// object takes its place.
func reported(raw []byte, status int, message string) *failure {
	var object struct {
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	if text, ok := wire.String(raw); ok { // Ollama's is a string
		object.Message = text
	} else {
		_ = json.Unmarshal(raw, &object)
	}
	if code, err := strconv.Atoi(string(object.Code)); err == nil && status == 0 && code >= 400 && code < 600 {
		status = code
	}
	code, _ := wire.String(object.Code)
	kind, reason := cmp.Or(code, object.Type), "the API failed"
	if status > 0 {
		reason = strings.TrimSpace(fmt.Sprintf("the API answered %d %s", status, http.StatusText(status)))
	}
	if kind != "" {
		reason += " (" + kind + ")"
	}
	if message = cmp.Or(object.Message, message); message != "" {
		reason += ": " + message
	}
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	again := status == http.StatusTooManyRequests && kind != "insufficient_quota" || status >= 500 && status != http.StatusNotImplemented
	return &failure{status, reason, again}
}

// cutOff returns the failure of an answer that err has ended.
func cutOff(err error) *failure {
	return &failure{reason: "the answer was cut off: " + err.Error(), transient: true}
}

func readAll(r io.Reader, limit int) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return nil, cutOff(err)
	case len(body) > limit:
		return nil, tooLarge(limit)
	}
	return body, nil
}

func tooLarge(limit int) error {
	return &failure{reason: fmt.Sprintf("the answer is too large: more than %d bytes", limit)}
}
