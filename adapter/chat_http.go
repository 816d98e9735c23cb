package adapter

import (
	"bytes"
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

	"github.com/cenkalti/backoff/v5"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	maxErrorBody = 64 << 10
	maxMessage   = 1000 // bytes of what an API says is wrong
	firstPause   = 500 * time.Millisecond
)

// An apiError is what an API says is wrong.
type apiError struct {
	status     int    // of HTTP; what its code is where it was said in an answer, or 0
	kind       string // its type, or code; may be empty
	message    string
	retryAfter time.Duration // 0 if it does not say
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

// transient reports whether the same request may well succeed later.
func (e *apiError) transient() bool {
	if e.status == http.StatusTooManyRequests {
		return e.kind != "insufficient_quota"
	}
	return e.status >= 500 && e.status != http.StatusNotImplemented
}

// A linkError is why there was no answer, or none to its end.
type linkError struct {
	what string
	err  error
}

func (e *linkError) Error() string { return e.what + ": " + e.err.Error() }
func (e *linkError) Unwrap() error { return e.err }

// transient reports whether another try may succeed where this one failed so.
func transient(err error) bool {
	if refused, ok := errors.AsType[*apiError](err); ok {
		return refused.transient()
	}
	_, ok := errors.AsType[*linkError](err)
	return ok
}

// send makes one request. Its error is an [*apiError] if the answer is no success, and
// a [*linkError] if there is none. key is what was sent as such.
func (c *Chat) send(ctx context.Context, method, path string, body []byte) (resp *http.Response, key string, err error) {
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path).String(), content)
	if err != nil {
		return nil, "", err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if key = strings.TrimSpace(os.Getenv(c.options.KeyVariable)); key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err = c.client.Do(r)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			resp.Body.Close()
		}
		return nil, key, context.Cause(ctx)
	case err != nil:
		if refused, ok := errors.AsType[*redirectError](err); ok {
			return nil, key, refused
		}
		return nil, key, &linkError{"can't reach " + c.base.Host, withoutURL(err)}
	case resp.StatusCode/100 == 2:
		return resp, key, nil
	}
	defer resp.Body.Close()
	return nil, key, c.refusal(resp, key)
}

// withoutURL returns the error without the URL, in which there may be more than is to
// be told.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// refusal reads what an API says is wrong.
func (c *Chat) refusal(resp *http.Response, key string) *apiError {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	raw := wire.Member(body, "error")
	if raw == nil {
		raw = body
	}
	e := errorIn(raw)
	e.status = resp.StatusCode
	if e.message == "" {
		e.message = strings.Join(strings.Fields(string(body)), " ")
	}
	e.retryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	if e.status == http.StatusUnauthorized && key == "" {
		e.message = strings.TrimSpace(fmt.Sprintf("%s; no key was sent, as %s is not set", e.message, c.options.KeyVariable))
	}
	return e.without(key)
}

// errorIn reads the error object of an API.
func errorIn(raw []byte) *apiError {
	var said struct {
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	if text, ok := wire.String(raw); ok { // Ollama's is a string
		return &apiError{message: text}
	}
	_ = json.Unmarshal(raw, &said)
	code, _ := wire.String(said.Code)
	e := &apiError{kind: cmp.Or(code, said.Type), message: said.Message}
	if status, err := strconv.Atoi(string(said.Code)); err == nil && status >= 400 && status < 600 {
		e.status = status
	}
	return e
}

// without returns the error without the key, which some APIs say again, and not too
// long.
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

// retryAfter reads the header of that name: seconds or a date (RFC 9110, section
// 10.2.3). It is 0 if there is none, or none that can be read.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 && seconds < 1e9 {
		return time.Duration(seconds * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// pauses says how long to wait between the tries of a call.
type pauses struct {
	growing *backoff.ExponentialBackOff
	longest time.Duration
}

func newPauses(longest time.Duration) *pauses {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.Multiplier, b.MaxInterval = firstPause, 2, longest
	return &pauses{b, longest}
}

// wait waits for the next try after one that ended with err. It does not, and returns
// why, if that would take too long, or longer than ctx.
func (p *pauses) wait(ctx context.Context, err error) error {
	pause := min(p.growing.NextBackOff(), p.longest)
	if refused, ok := errors.AsType[*apiError](err); ok && refused.retryAfter > 0 {
		if pause = refused.retryAfter; pause > p.longest {
			return fmt.Errorf("%w; it asks to be left alone for %s", err, pause.Round(time.Second))
		}
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
		return fmt.Errorf("%w; there is no time left for another try", err)
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errTooLarge = errors.New("the answer is too large")

func readAll(r io.Reader, most int) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	switch {
	case err != nil:
		return nil, &linkError{"the answer was cut off", err}
	case len(body) > most:
		return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, most)
	}
	return body, nil
}
