package login

import (
	"errors"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// A login by code, for which the issuer is asked a second later.
func TestDevice(t *testing.T) {
	layer.Integration(t)
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	f.server.Settings.Grant = oauth.DeviceCode
	p := f.begin(Request{})
	if p.Device == nil || p.URL != p.Device.CompleteURL {
		t.Fatalf("%+v", p)
	}
	if err := p.Finish(t.Context(), "http://127.0.0.1/callback?code=1&state="+p.state); err == nil {
		t.Error("an address completes a login by code")
	}
	if _, err := f.logins.Callback(t.Context(), "", "code=1&state="+p.state); !errors.Is(err, errUnknown) {
		t.Errorf("the public address completes a login by code: %v", err)
	}
	if !f.issuer.Approve(p.Device.UserCode) {
		t.Fatal("the issuer does not know the code")
	}
	expect.OK(t, p.Wait(t.Context()))
	f.mustWork(f.logins.Source(f.server))

	f.issuer.Change(func(o *fakeissuer.Options) { o.NoDevice = true })
	f.server.Settings.Grant = ""
	_, err := f.router().Begin(t.Context(), Request{Server: f.server, Way: Device})
	expect.Error(t, err, "no logins by device code", "without the grant")
}
