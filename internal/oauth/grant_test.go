package oauth

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"golang.org/x/oauth2"
)

// A request is what a test's issuer was asked.
type request struct {
	path     string
	form     url.Values
	json     map[string]any
	user     string // of basic authentication, as sent
	password string
	accept   string
}

// A scripted transport is an issuer that gives answers, one after the other, the last again and again:
// a status, a space and a body. "" is no answer at all.
type scripted struct {
	answers []string
	asked   []request
	at      []time.Duration // when it was asked, since it began
	begun   time.Time
}

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	one := request{path: r.URL.Path, accept: r.Header.Get("Accept")}
	one.user, one.password, _ = r.BasicAuth()
	if r.Header.Get("Content-Type") == "application/json" {
		err = json.Unmarshal(body, &one.json)
	} else {
		one.form, err = url.ParseQuery(string(body))
	}
	if err != nil {
		return nil, err
	}
	s.asked, s.at = append(s.asked, one), append(s.at, time.Since(s.begun))
	answer := s.answers[min(len(s.asked), len(s.answers))-1]
	if answer == "" {
		return nil, errors.New("no route")
	}
	status, err := strconv.Atoi(answer[:3])
	header := http.Header{"Content-Type": {"application/json"}, "Location": {"/elsewhere"}}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(answer[4:])), Request: r}, err
}

// answers returns a client of an issuer that gives these answers.
func answers(all ...string) (*Grantor, *scripted) {
	const at = "https://as.example"
	s := &scripted{answers: all, begun: time.Now()}
	return &Grantor{
		HTTP: &http.Client{Transport: s},
		Issuer: Issuer{
			ID:                    at,
			AuthorizationEndpoint: at + "/authorize?tenant=a",
			TokenEndpoint:         at + "/token?secret=hunter2",
			DeviceEndpoint:        at + "/device",
			RevocationEndpoint:    at + "/revoke",
			RegistrationEndpoint:  at + "/register",
		},
		Client:   Client{ID: "me", AuthMethod: "none"},
		Resource: "https://mcp.example/mcp",
	}, s
}

func TestScopesToAsk(t *testing.T) {
	found := &Found{Scopes: []string{"meta"}, Issuer: Issuer{Scopes: []string{"other"}}}
	offline := &Found{Scopes: []string{"meta"}, Issuer: Issuer{Scopes: []string{"offline_access"}}}
	challenge := Challenge{Scopes: []string{"asked"}}
	for name, test := range map[string]struct {
		settings  Settings
		found     *Found
		challenge Challenge
		granted   []string
		want      []string
	}{
		"settings":              {Settings{Scopes: []string{"mine"}}, found, challenge, nil, []string{"mine"}},
		"settings, not widened": {Settings{Scopes: []string{"mine"}}, found, challenge, []string{"old"}, []string{"mine"}},
		"settings, none":        {Settings{Scopes: []string{}}, offline, challenge, nil, []string{"offline_access"}},
		"challenge":             {Settings{}, found, challenge, nil, []string{"asked"}},
		"metadata":              {Settings{}, found, Challenge{}, nil, []string{"meta"}},
		"none":                  {Settings{}, &Found{}, Challenge{}, nil, nil},
		"nothing found":         {Settings{}, nil, Challenge{}, nil, nil},
		"step-up":               {Settings{}, found, challenge, []string{"old", "asked"}, []string{"asked", "old"}},
		"offline":               {Settings{}, offline, challenge, nil, []string{"asked", "offline_access"}},
		"client credentials":    {Settings{Grant: ClientCredentials}, offline, challenge, nil, []string{"asked"}},
	} {
		t.Run(name, func(t *testing.T) {
			expect.List(t, ScopesToAsk(test.settings, test.found, test.challenge, test.granted), test.want)
		})
	}
}

func TestAuthorizationURL(t *testing.T) {
	g := &Grantor{Issuer: Issuer{AuthorizationEndpoint: "https://as.example/authorize?tenant=a b#part"}, Client: Client{ID: "me", Secret: "hidden"}, Resource: "https://mcp.example/mcp"}
	verifier := oauth2.GenerateVerifier()
	u, err := url.Parse(g.AuthorizationURL("S", verifier, "http://127.0.0.1:1/callback", []string{"a", "offline_access"}))
	expect.OK(t, err)
	want := url.Values{
		"tenant": {"a b"}, "response_type": {"code"}, "client_id": {"me"}, "state": {"S"}, "redirect_uri": {"http://127.0.0.1:1/callback"},
		"scope": {"a offline_access"}, "prompt": {"consent"}, "resource": {"https://mcp.example/mcp"},
		"code_challenge": {oauth2.S256ChallengeFromVerifier(verifier)}, "code_challenge_method": {"S256"},
	}
	if got := u.Query(); u.Host != "as.example" || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	g.Resource = ""
	u, _ = url.Parse(g.AuthorizationURL("S", verifier, "http://127.0.0.1:1/callback", nil))
	for _, name := range []string{"scope", "resource", "prompt"} {
		if u.Query().Has(name) {
			t.Errorf("the URL has an empty %s: %s", name, u)
		}
	}
	for _, endpoint := range []string{"", "javascript:alert(1)", "data:text/html,x", "http://as.example/authorize", "https:///authorize", "https://user@as.example/", "file:///etc/passwd", "HTTP://127.0.0.1.example/"} {
		g.Issuer.AuthorizationEndpoint = endpoint
		expect.Equal(t, g.AuthorizationURL("S", verifier, "http://127.0.0.1:1/callback", nil), "", "%q", endpoint)
	}
	for _, endpoint := range []string{"http://127.0.0.1:8/a", "http://[::1]:8/a", "http://localhost/a"} {
		g.Issuer.AuthorizationEndpoint = endpoint
		if g.AuthorizationURL("S", verifier, "", nil) == "" {
			t.Errorf("%q is refused", endpoint)
		}
	}
}

// Characters that no URL may have do not reach the programs that open browsers.
func TestAuthorizationURLHasNoQuotes(t *testing.T) {
	g := &Grantor{Issuer: Issuer{AuthorizationEndpoint: "https://as.example/a\"b`c|d^e{f}\\g?x=\"`<>|\u202e %41"}, Client: Client{ID: "me"}}
	got := g.AuthorizationURL("S", oauth2.GenerateVerifier(), "http://127.0.0.1:1/callback", nil)
	const want = "https://as.example/a%22b%60c%7Cd%5Ee%7Bf%7D%5Cg?x=%22%60%3C%3E%7C%E2%80%AE%20%41&client_id=me&"
	if !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s…", got, want)
	}
}

func TestCheckResponse(t *testing.T) {
	for name, test := range map[string]struct {
		query   string
		sends   bool // iss, as the issuer says
		code    string
		refusal string
		err     string
	}{
		"code":                       {query: "code=c&state=s", code: "c"},
		"iss":                        {query: "code=c&iss=https%3A%2F%2Fas.example", sends: true, code: "c"},
		"iss not advertised":         {query: "code=c&iss=https%3A%2F%2Fas.example", code: "c"},
		"iss missing":                {query: "code=c", sends: true, err: "no iss"},
		"iss of another":             {query: "code=c&iss=https%3A%2F%2Fevil.example", sends: true, err: "another issuer"},
		"iss of another, unasked":    {query: "code=c&iss=https%3A%2F%2Fevil.example", err: "another issuer"},
		"iss normalized":             {query: "code=c&iss=https%3A%2F%2FAS.example", err: "another issuer"},
		"iss with a slash":           {query: "code=c&iss=https%3A%2F%2Fas.example%2F", sends: true, err: "another issuer"},
		"iss empty":                  {query: "code=c&iss=", err: "another issuer"},
		"iss twice":                  {query: "code=c&iss=https%3A%2F%2Fas.example&iss=https%3A%2F%2Fevil.example", err: `"iss" 2 times`},
		"code twice":                 {query: "code=c&code=d", err: `"code" 2 times`},
		"state twice":                {query: "code=c&state=s&state=t", err: `"state" 2 times`},
		"error":                      {query: "error=access_denied&error_description=no%0Aline%1b%5b31m", refusal: "access_denied"},
		"error before code":          {query: "error=access_denied&code=c", refusal: "access_denied"},
		"error of another issuer":    {query: "error=access_denied&iss=https%3A%2F%2Fevil.example", err: "another issuer"},
		"error without promised iss": {query: "error=access_denied", sends: true, err: "no iss"},
		"nothing":                    {query: "", err: "neither"},
		"empty code":                 {query: "code=", err: "neither"},
		"long code":                  {query: "code=" + strings.Repeat("c", maxToken+1), err: "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &Grantor{Issuer: Issuer{ID: "https://as.example", SendsIssuer: test.sends}}
			q, err := url.ParseQuery(test.query)
			expect.OK(t, err)
			code, err := g.CheckResponse(q)
			refusal, refused := errors.AsType[*Refusal](err)
			switch {
			case code != test.code:
				t.Errorf("code %q, want %q", code, test.code)
			case test.refusal != "" && (!refused || refusal.Code != test.refusal || strings.ContainsAny(err.Error(), "\n\x1b")):
				t.Errorf("error %q, want a refusal %q on one line", err, test.refusal)
			case test.err != "" && (err == nil || refused || !strings.Contains(err.Error(), test.err)):
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

func FuzzCheckResponse(f *testing.F) {
	f.Add("code=c&state=s&iss=https%3A%2F%2Fas.example", true)
	f.Add("error=access_denied&error_description=%1b%5b31m", false)
	f.Add("code=c&code=d&iss=https%3A%2F%2Fevil.example", false)
	f.Fuzz(func(t *testing.T, query string, sends bool) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		g := &Grantor{Issuer: Issuer{ID: "https://as.example", SendsIssuer: sends}}
		code, err := g.CheckResponse(q)
		switch {
		case err == nil && (code == "" || code != q.Get("code") || len(q["code"]) != 1 || q.Has("error")):
			t.Errorf("code %q of %q", code, query)
		case err == nil && (len(q["iss"]) > 1 || q.Has("iss") && q.Get("iss") != g.Issuer.ID || sends && !q.Has("iss")):
			t.Errorf("the iss of %q is accepted", query)
		case err != nil && (code != "" || len(err.Error()) > 4000 || strings.ContainsAny(err.Error(), "\n\r\x1b")):
			t.Errorf("code %q, error %q of %q", code, err, query)
		}
	})
}

func TestTokenRequests(t *testing.T) {
	const ok = `200 {"access_token": "A", "token_type": "bearer", "expires_in": 60}`
	for name, test := range map[string]struct {
		client Client
		ask    func(g *Grantor) (Token, error)
		form   url.Values
		user   string
		pass   string
	}{
		"code, public": {
			Client{ID: "me", AuthMethod: "none"},
			func(g *Grantor) (Token, error) {
				return g.Exchange(t.Context(), "C", "V", "http://127.0.0.1:1/callback", nil)
			},
			url.Values{"grant_type": {"authorization_code"}, "code": {"C"}, "code_verifier": {"V"}, "redirect_uri": {"http://127.0.0.1:1/callback"}, "client_id": {"me"}, "resource": {"https://mcp.example/mcp"}},
			"", "",
		},
		"refresh, basic": {
			Client{ID: "m e", Secret: "s:%", AuthMethod: "client_secret_basic"},
			func(g *Grantor) (Token, error) { return g.Refresh(t.Context(), Token{Refresh: "R"}) },
			url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"R"}, "resource": {"https://mcp.example/mcp"}},
			"m+e", "s%3A%25",
		},
		"client credentials, post": {
			Client{ID: "me", Secret: "s", AuthMethod: "client_secret_post"},
			func(g *Grantor) (Token, error) { return g.ClientCredentials(t.Context(), []string{"a", "b"}) },
			url.Values{"grant_type": {"client_credentials"}, "scope": {"a b"}, "client_id": {"me"}, "client_secret": {"s"}, "resource": {"https://mcp.example/mcp"}},
			"", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, asked := answers(ok)
			g.Client = test.client
			_, err := test.ask(g)
			expect.OK(t, err)
			want := request{"/token", test.form, nil, test.user, test.pass, "application/json"}
			if got := asked.asked[0]; len(asked.asked) != 1 || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
	t.Run("without resource", func(t *testing.T) {
		g, asked := answers(ok)
		g.Resource = ""
		if _, err := g.Refresh(t.Context(), Token{Refresh: "R"}); err != nil || asked.asked[0].form.Has("resource") {
			t.Errorf("%v, form %v", err, asked.asked[0].form)
		}
	})
}

func TestTokenAnswers(t *testing.T) {
	long := strings.Repeat("x", maxToken+1)
	for name, test := range map[string]struct {
		answer  string
		refusal string
		err     string
		life    time.Duration // -1: the issuer does not say
		refresh string
		scopes  []string
	}{
		"usual":                {answer: `200 {"access_token":"A","token_type":"Bearer","expires_in":60,"refresh_token":"R2","scope":"b  c"}`, life: time.Minute, refresh: "R2", scopes: []string{"b", "c"}},
		"little":               {answer: `200 {"access_token":"A"}`, life: -1},
		"life as text":         {answer: `200 {"access_token":"A","token_type":"BEARER","expires_in":"3600"}`, life: time.Hour},
		"life 0":               {answer: `200 {"access_token":"A","expires_in":0}`, life: -1},
		"life negative":        {answer: `200 {"access_token":"A","expires_in":-5}`, life: -1},
		"life of words":        {answer: `200 {"access_token":"A","expires_in":"soon"}`, life: -1},
		"life NaN":             {answer: `200 {"access_token":"A","expires_in":"NaN"}`, life: -1},
		"life long":            {answer: `200 {"access_token":"A","expires_in":99999999999999999999}`, life: maxLife},
		"life beyond":          {answer: `200 {"access_token":"A","expires_in":1e999}`, life: maxLife},
		"scopes with commas":   {answer: `200 {"access_token":"A","scope":"repo,gist"}`, life: -1, scopes: []string{"repo", "gist"}},
		"scope empty":          {answer: `200 {"access_token":"A","scope":""}`, life: -1},
		"another type":         {answer: `200 {"access_token":"A","token_type":"DPoP"}`, err: `"DPoP"`},
		"no token":             {answer: `200 {"token_type":"Bearer"}`, err: "no access_token"},
		"token with a line":    {answer: `200 {"access_token":"A\nB"}`, err: "can't be sent"},
		"token with a space":   {answer: `200 {"access_token":"A B"}`, err: "can't be sent"},
		"token with an umlaut": {answer: `200 {"access_token":"Ä"}`, err: "can't be sent"},
		"long token":           {answer: `200 {"access_token":"` + long + `"}`, err: "can't be sent"},
		"long refresh token":   {answer: `200 {"access_token":"A","refresh_token":"` + long + `"}`, err: "longer"},
		"no JSON":              {answer: `200 access_token=A`, err: "not a JSON object"},
		"null":                 {answer: `200 null`, err: "not a JSON object"},
		"list":                 {answer: `200 ["A"]`, err: "not a JSON object"},
		"too long":             {answer: `200 {"access_token":"A","x":"` + strings.Repeat("x", maxBody) + `"}`, err: "longer than"},
		"redirect":             {answer: `307 {"access_token":"A"}`, err: "redirects"},
		"found":                {answer: `302 {"access_token":"A"}`, err: "redirects"},
		"refused":              {answer: `400 {"error":"invalid_grant","error_description":"the token R is gone\nreally"}`, refusal: "invalid_grant"},
		"refused with 200":     {answer: `200 {"error":"bad_refresh_token"}`, refusal: "invalid_grant"},
		"refused with 401":     {answer: `401 {"error":"invalid_client"}`, refusal: "invalid_client"},
		"slow down":            {answer: `429 {"error":"slow_down"}`, refusal: "slow_down"},
		"too many":             {answer: `429 {}`, err: "fails for now"},
		"down":                 {answer: `503 {"error":"invalid_grant"}`, err: "fails for now (status 503)"},
		"silent":               {answer: `403 <html>`, err: "without saying why"},
	} {
		t.Run(name, func(t *testing.T) {
			g, asked := answers(test.answer)
			token, err := g.Refresh(t.Context(), Token{Refresh: "R", Scopes: []string{"a"}})
			refusal, refused := errors.AsType[*Refusal](err)
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "token R ") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("the error has a secret or lines: %v", err)
			}
			expect.Equal(t, len(asked.asked), 1, "the issuer was asked … times")
			switch {
			case test.refusal != "":
				if !refused || refusal.Code != test.refusal {
					t.Errorf("error %v, want %s", err, test.refusal)
				}
			case test.err != "":
				if err == nil || refused || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
			case err != nil:
				t.Error(err)
			default:
				checkToken(t, token, test.life, test.refresh, test.scopes)
			}
		})
	}
}

func checkToken(t *testing.T, token Token, life time.Duration, refresh string, scopes []string) {
	t.Helper()
	if scopes == nil {
		scopes = []string{"a"}
	}
	got := token.Expires.Sub(token.Obtained)
	if life < 0 && !token.Expires.IsZero() || life >= 0 && got != life {
		t.Errorf("the token lives for %v, want %v", got, life)
	}
	if token.Access != "A" || token.Refresh != cmp.Or(refresh, "R") || !slices.Equal(token.Scopes, scopes) || token.Obtained.IsZero() {
		t.Errorf("token %q, refresh token %q, scopes %q, obtained %v", token.Access, token.Refresh, token.Scopes, token.Obtained)
	}
}

func FuzzReadToken(f *testing.F) {
	f.Add(200, []byte(`{"access_token":"A","token_type":"Bearer","expires_in":60,"scope":"a b"}`))
	f.Add(200, []byte(`{"access_token":"A\u0000","expires_in":1e999,"refresh_token":7}`))
	f.Add(400, []byte(`{"error":"invalid_grant\u001b[31m","error_description":"secret-R"}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		at := time.Unix(1e9, 0)
		r, err := readReply("token endpoint", status, body, []string{"secret-R"})
		var token Token
		if err == nil {
			token, err = readToken(r, at, nil)
		}
		if err != nil {
			if text := err.Error(); len(text) > 4000 || strings.ContainsAny(text, "\n\r\x1b\x00") || strings.Contains(text, "secret-R") {
				t.Errorf("error %q", text)
			}
			return
		}
		if _, err := http.NewRequest("GET", "http://localhost/", nil); err != nil || token.Access == "" || strings.ContainsAny(token.Access, " \r\n\x00") || len(token.Access) > maxToken {
			t.Errorf("access token %q", token.Access)
		}
		if !token.Expires.IsZero() && (token.Expires.Before(at) || token.Expires.After(at.Add(maxLife))) {
			t.Errorf("expires %v", token.Expires)
		}
	})
}

func FuzzOtherAnswers(f *testing.F) {
	f.Add([]byte(`{"client_id":"i","client_secret":"s","client_secret_expires_at":1e300}`))
	f.Add([]byte(`{"device_code":"D","user_code":"A\u001b","verification_uri":"javascript:x","expires_in":-1,"interval":1e300}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := readReply("endpoint", 200, body, nil)
		if err != nil {
			return
		}
		client, err := readClient(r, authNone, Issuer{}, Redirect{})
		if known := client.AuthMethod == authNone && client.Secret == "" || client.Secret != "" && (client.AuthMethod == authBasic || client.AuthMethod == authPost); err == nil && (client.ID == "" || !known) {
			t.Errorf("client %v, secret %q", client, client.Secret)
		}
		at := time.Unix(1e9, 0)
		d, err := readDevice(r, at)
		if err != nil {
			return
		}
		if d.Expires.Before(at) || d.Expires.After(at.Add(deviceLife)) || d.interval < minInterval || d.interval > maxInterval {
			t.Errorf("expires %v, interval %v", d.Expires, d.interval)
		}
		if checkEndpoint("", d.URL) != nil || d.CompleteURL != "" && checkEndpoint("", d.CompleteURL) != nil || strings.ContainsAny(d.UserCode, "\n\x1b") {
			t.Errorf("device %q %q %q", d.UserCode, d.URL, d.CompleteURL)
		}
	})
}

func TestRefusalSaysWhatToDo(t *testing.T) {
	for want, refusal := range map[string]*Refusal{
		`{"resource": false}`: newRefusal("invalid_target", "", 400, nil),
		`"resource": false`:   newRefusal("invalid_request", "AADSTS901002: The 'resource' request parameter is not supported.", 400, nil),
		`{"scopes": […]}`:     newRefusal("invalid_scope", "", 400, nil),
	} {
		expect.Contains(t, refusal.Error(), want)
	}
	expect.Equal(t, newRefusal("invalid_grant", "gone", 400, nil).Error(), "the issuer refuses: invalid_grant (gone)")
}

func TestNetworkErrorsHaveNoQuery(t *testing.T) {
	g, _ := answers()
	g.HTTP = http.DefaultClient
	g.Issuer.TokenEndpoint = "http://127.0.0.1:1/token?secret=hunter2"
	_, err := g.Refresh(t.Context(), Token{Refresh: "R"})
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("error %v", err)
	}
	if _, refused := errors.AsType[*Refusal](err); refused {
		t.Errorf("%v is a refusal", err)
	}
}

// An issuer that repeats the request in its refusal does not have its client's secret shown, in
// no way in which a request has it.
func TestRefusalRepeatsNoSecret(t *testing.T) {
	const id, secret, code = "me", "hunter/2 +", "co/de"
	proof := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id) + ":" + url.QueryEscape(secret)))
	description := strings.Join([]string{"start", secret, url.QueryEscape(secret), proof, code, url.QueryEscape(code), "end"}, " ")
	answer, err := json.Marshal(map[string]string{"error": "invalid_grant", "error_description": description})
	expect.OK(t, err)
	g, _ := answers("400 " + string(answer))
	g.Client = Client{ID: id, Secret: secret, AuthMethod: "client_secret_basic"}
	_, err = g.Exchange(t.Context(), code, "verifier", "http://127.0.0.1:1/callback", nil)
	refusal, ok := errors.AsType[*Refusal](err)
	if want := "start … … … … … end"; !ok || refusal.Description != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestNothingPrintsSecrets(t *testing.T) {
	const hidden = "hunter2"
	token := Token{Access: hidden, Refresh: hidden}
	client := Client{ID: "me", Secret: hidden}
	settings := Settings{ClientSecret: hidden, PrivateKey: hidden}
	grantor := Grantor{Client: client, Settings: settings}
	device := Device{code: hidden}
	for _, value := range []any{token, &token, client, &client, settings, &settings, grantor, &grantor, device, &device, Server{Settings: settings}, []Token{token}, map[string]Client{"": client}} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			if text := fmt.Sprintf(format, value); strings.Contains(text, hidden) || strings.Contains(text, fmt.Sprintf("%x", hidden)) {
				t.Errorf("%s of %T has a secret: %s", format, value, text)
			}
		}
	}
	data, err := json.Marshal(token)
	var back Token
	if err != nil || json.Unmarshal(data, &back) != nil || back.Access != hidden || back.Refresh != hidden {
		t.Errorf("the store's JSON is %s (%v)", data, err)
	}
}

func TestRevoke(t *testing.T) {
	token := Token{Access: "A", Refresh: "R"}
	g, asked := answers(`200 `)
	g.Client = Client{ID: "me", Secret: "s", AuthMethod: "client_secret_basic"}
	expect.OK(t, g.Revoke(t.Context(), token))
	var order []string
	for _, r := range asked.asked {
		order = append(order, r.path+" "+r.form.Get("token_type_hint")+" "+r.form.Get("token")+" "+r.user)
	}
	expect.List(t, order, []string{"/revoke refresh_token R me", "/revoke access_token A me"}, "asked")

	g, _ = answers(`200 `, `400 {"error":"invalid_token"}`)
	expect.OK(t, g.Revoke(t.Context(), token)) // the access token has ended with the refresh token
	g, asked = answers(`200 OK`, `400 {"error":"unsupported_token_type"}`)
	err := g.Revoke(t.Context(), token)
	if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Code != "unsupported_token_type" || len(asked.asked) != 2 {
		t.Errorf("error %v after %d requests", err, len(asked.asked))
	}
	g, asked = answers(`503 `)
	if err := g.Revoke(t.Context(), token); err == nil || len(asked.asked) != 2 {
		t.Errorf("error %v after %d requests", err, len(asked.asked))
	}
	g.Issuer.RevocationEndpoint = ""
	if err := g.Revoke(t.Context(), token); err != nil || len(asked.asked) != 2 {
		t.Errorf("an issuer that can't revoke: %v", err)
	}
}

// TestNotSent checks which failures say that the issuer has got nothing.
func TestNotSent(t *testing.T) {
	hangsUp := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer hangsUp.Close()
	unknown := httptest.NewUnstartedServer(nil)
	unknown.Config.ErrorLog = log.New(io.Discard, "", 0)
	unknown.StartTLS() // with a certificate that nobody knows
	defer unknown.Close()
	for name, test := range map[string]struct {
		endpoint string
		unsent   bool
	}{
		"hangs up":    {hangsUp.URL, false},
		"no https":    {"http://issuer.example/token", true},
		"no URL":      {"", true},
		"forbidden":   {"https://169.254.169.254/token", true},
		"closed":      {"http://127.0.0.1:1/token", true},
		"certificate": {unknown.URL, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := &Grantor{HTTP: NewHTTPClient(Server{URL: "http://127.0.0.1/mcp"}), Issuer: Issuer{TokenEndpoint: test.endpoint}, Client: Client{ID: "me", AuthMethod: "none"}}
			if _, err := g.Refresh(t.Context(), Token{Refresh: "next"}); err == nil || errors.Is(err, ErrNotSent) != test.unsent {
				t.Errorf("%v; not sent: %t, want %t", err, errors.Is(err, ErrNotSent), test.unsent)
			}
		})
	}
}
