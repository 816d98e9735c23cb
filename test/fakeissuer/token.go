package fakeissuer

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// A rotation is a refresh token.
type rotation struct {
	grant
	used time.Time // zero before
	next string    // the token that replaced it
}

// A device is a login that waits for its person.
type device struct {
	grant
	user     string
	approved bool
}

func newFamily() *family { return &family{} }

// token is the token endpoint.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.counts.TokenRequests++
	o := i.options
	i.mu.Unlock()
	if o.Hang {
		<-r.Context().Done()
		return
	}
	if o.Down {
		panic(http.ErrAbortHandler) // closes the connection
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	id, ok := i.authenticate(r)
	if !ok {
		refuse(w, http.StatusUnauthorized, "invalid_client", "the client is not known, or its secret is wrong")
		return
	}
	if o.RefuseResource && r.PostForm.Has("resource") {
		refuse(w, http.StatusBadRequest, "invalid_target", "")
		return
	}
	kind := r.PostForm.Get("grant_type")
	g, refresh, code := i.redeem(kind, id, r.PostForm)
	if code != "" {
		refuse(w, http.StatusBadRequest, code, "the grant is refused")
		return
	}
	result := i.issue(g, refresh)
	if o.BeforeAnswer != nil && !o.BeforeAnswer(kind) {
		panic(http.ErrAbortHandler)
	}
	answer(w, http.StatusOK, result)
}

// authenticate returns the ID of the client that sends the request.
func (i *Issuer) authenticate(r *http.Request) (id string, ok bool) {
	id, secret := r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	if user, password, basic := r.BasicAuth(); basic {
		user, err1 := url.QueryUnescape(user)
		password, err2 := url.QueryUnescape(password)
		if err1 != nil || err2 != nil {
			return "", false
		}
		id, secret = user, password
	}
	asserted := r.PostForm.Get("client_assertion_type") == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	if asserted {
		id = subject(r.PostForm.Get("client_assertion"))
	}
	c, err := i.clientOf(r.Context(), id)
	return id, err == nil && (asserted || c.secret == secret)
}

// subject returns the subject of a JWT, whose signature it does not check.
func subject(jwt string) string {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return ""
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Sub string `json:"sub"`
	}
	if err != nil || json.Unmarshal(data, &claims) != nil {
		return ""
	}
	return claims.Sub
}

// redeem returns what the form is granted, and the refresh token that goes with it. Otherwise it
// returns the code of an error.
func (i *Issuer) redeem(kind, id string, form url.Values) (g grant, refresh, code string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch kind {
	case "authorization_code":
		return i.redeemCode(id, form)
	case "refresh_token":
		return i.redeemRefresh(id, form)
	case "client_credentials":
		return grant{client: id, resource: form.Get("resource"), scopes: i.granted(form.Get("scope")), family: newFamily()}, "", ""
	case exchangeGrant:
		return i.exchange(id, form)
	case deviceGrant:
		d, ok := i.devices[form.Get("device_code")]
		switch {
		case !ok || d.client != id || !time.Now().Before(d.expires):
			return g, "", "expired_token"
		case !d.approved:
			return g, "", "authorization_pending"
		}
		delete(i.devices, form.Get("device_code"))
		if d.resource == "" {
			d.resource = form.Get("resource")
		}
		return d.grant, i.newRefresh(d.grant), ""
	}
	return g, "", "unsupported_grant_type"
}

func (i *Issuer) redeemCode(id string, form url.Values) (g grant, refresh, code string) {
	pending, ok := i.codes[form.Get("code")]
	delete(i.codes, form.Get("code")) // it works once
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	switch {
	case !ok || pending.client != id || pending.redirect != form.Get("redirect_uri") || !time.Now().Before(pending.expires),
		base64.RawURLEncoding.EncodeToString(sum[:]) != pending.challenge:
		return g, "", "invalid_grant"
	case pending.resource != form.Get("resource"):
		return g, "", "invalid_target"
	}
	return *pending, i.newRefresh(*pending), ""
}

// exchange redeems a token of [Issuer.Sign] (RFC 8693). Its subject is the account of the new token, for the audience.
func (i *Issuer) exchange(id string, form url.Values) (g grant, refresh, code string) {
	i.counts.Exchanges++
	var claims struct {
		Sub string `json:"sub"`
		Exp int64  `json:"exp"`
	}
	signed, err := jwt.ParseSigned(form.Get("subject_token"), []jose.SignatureAlgorithm{jose.ES256})
	switch {
	case i.clients[id].secret == "" || form.Get("subject_token_type") != "urn:ietf:params:oauth:token-type:access_token":
		return g, "", "invalid_request"
	case err != nil || signed.Claims(i.key.Public(), &claims) != nil || time.Now().Unix() >= claims.Exp || i.options.Revoked[claims.Sub]:
		return g, "", "invalid_grant"
	case i.options.Audience != "" && form.Get("audience") != i.options.Audience:
		return g, "", "invalid_target"
	}
	return grant{client: id, resource: form.Get("audience"), account: claims.Sub, scopes: i.granted(form.Get("scope")), family: newFamily()}, "", ""
}

func (i *Issuer) redeemRefresh(id string, form url.Values) (g grant, refresh, code string) {
	old := form.Get("refresh_token")
	rotated, ok := i.refresh[old]
	switch {
	case !ok || rotated.client != id || i.unusable[rotated.family]:
		return g, "", "invalid_grant"
	case rotated.resource != form.Get("resource"):
		return g, "", "invalid_target"
	}
	i.counts.Refreshes++
	if !i.options.Rotate {
		return rotated.grant, "", ""
	}
	if rotated.used.IsZero() {
		rotated.used, rotated.next = time.Now(), i.newRefresh(rotated.grant)
		return rotated.grant, rotated.next, ""
	}
	if time.Since(rotated.used) <= i.options.Grace {
		i.counts.Repeats++
		return rotated.grant, rotated.next, ""
	}
	i.counts.Reuses++
	i.unusable[rotated.family] = true
	return g, "", "invalid_grant"
}

// newRefresh returns a new refresh token; "" if it issues no refresh tokens. The lock must be held.
func (i *Issuer) newRefresh(g grant) string {
	if i.options.NoRefresh {
		return ""
	}
	token := "refresh-" + rand.Text()
	i.refresh[token] = &rotation{grant: g}
	return token
}

// issue returns the answer of the token endpoint, with a new access token.
func (i *Issuer) issue(g grant, refresh string) map[string]any {
	i.mu.Lock()
	defer i.mu.Unlock()
	life := i.options.Life
	if life == 0 {
		life = time.Hour
	}
	token := "access-" + rand.Text()
	g.expires = time.Now().Add(life)
	i.access[token] = &g
	result := map[string]any{"access_token": token, "token_type": "Bearer", "scope": strings.Join(g.scopes, " ")}
	if !i.options.NoExpiresIn {
		result["expires_in"] = int((life + time.Second - 1) / time.Second)
	}
	if refresh != "" {
		result["refresh_token"] = refresh
	}
	return result
}

// device is the device authorization endpoint (RFC 8628).
func (i *Issuer) device(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	id, ok := i.authenticate(r)
	if !ok {
		refuse(w, http.StatusUnauthorized, "invalid_client", "")
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	code, user := rand.Text(), rand.Text()[:8]
	i.devices[code] = &device{user: user, grant: grant{
		client: id, resource: r.PostForm.Get("resource"), scopes: i.granted(r.PostForm.Get("scope")),
		expires: time.Now().Add(time.Minute), family: newFamily(),
	}}
	answer(w, http.StatusOK, map[string]any{
		"device_code": code, "user_code": user, "expires_in": 60, "interval": 1,
		"verification_uri": i.URL + "/verify", "verification_uri_complete": i.URL + "/verify?user_code=" + user,
	})
}

// Approve grants the login with the user code, as its person does, and reports whether there is
// one.
func (i *Issuer) Approve(userCode string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, d := range i.devices {
		if d.user == userCode {
			d.approved = true
			i.counts.Authorizations++
			return true
		}
	}
	return false
}
