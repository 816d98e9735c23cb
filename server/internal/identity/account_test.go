package identity

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A longValue is the account of a user with one value.
type longValue struct{ set string }

func (*longValue) Personal() bool { return true }

func (a *longValue) UserValues(context.Context, string, string) (map[string]bool, error) {
	return map[string]bool{"key": a.set != ""}, nil
}

func (a *longValue) SetUserValue(_ context.Context, _, _, _, value string) error {
	a.set = value
	return nil
}

// A value as long as the store takes arrives, also if a form has each of its characters as three.
func TestLongValue(t *testing.T) {
	own := new(longValue)
	i := New(t.Context(), Options{Pages: true, Accounts: own, Log: zap.NewNop()})
	defer i.Close()
	value := strings.Repeat("+", 4<<10)
	r := httptest.NewRequest("POST", "http://127.0.0.1/account", strings.NewReader(url.Values{"name": {"key"}, "value": {value}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://127.0.0.1")
	w := httptest.NewRecorder()
	r.Body = http.MaxBytesReader(w, r.Body, MaxForm)
	c := &Sender{Rules: NewRules(nil, nil, nil, "", nil), Browser: true}
	i.Identify(r, c)
	_, denied := i.Browse(w, r, c, true)
	if denied != nil || w.Code != http.StatusSeeOther || own.set != value {
		t.Errorf("%+v, %d %s, with %d bytes", denied, w.Code, w.Body, len(own.set))
	}
	expect.Equal(t, w.Header().Get("Location"), "/account")
}
