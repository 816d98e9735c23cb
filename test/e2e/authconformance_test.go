//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// everyEraVariable is the environment variable that runs each authorization scenario for all
// revisions and eras, instead of for its latest revision only.
const everyEraVariable = "METAROUTER_E2E_EVERY_ERA"

var (
	since2025June     = []string{"2025-06-18", "2025-11-25", "2026-07-28"}
	since2025November = since2025June[1:]
	since2026         = since2025June[2:]
)

// authScenarios are the authorization scenarios of the official suite, and what each checks of the
// router. The suite also has auth/dpop, auth/dpop-nonce and auth/wif-jwt-bearer, none of which the router does, and
// auth/enterprise-managed-authorization, which package supervisor tests.
//
// All check PKCE with S256, that one client is registered (with application_type from 2026-07-28
// on), and that no request has a token of another issuer.
var authScenarios = map[string]struct {
	revisions []string
	drive     func(*authDriver) error
}{
	// Where metadata is: the resource's metadata at the URL of the challenge and nowhere else; by its
	// path, with metadata of OpenID Connect; at the root, for an issuer with a path; at a URL of
	// its own. The resource parameter is the published one, byte for byte, in both requests.
	"auth/metadata-default": {since2025November, (*authDriver).logInAndCall},
	"auth/metadata-var1":    {since2025November, (*authDriver).logInAndCall},
	"auth/metadata-var2":    {since2025November, (*authDriver).logInAndCall},
	"auth/metadata-var3":    {since2025November, (*authDriver).logInAndCall},
	// The server's origin is the issuer. In the second it has no metadata, but the usual endpoints.
	"auth/2025-03-26-oauth-metadata-backcompat": {[]string{"2025-03-26"}, (*authDriver).logInAndCall},
	"auth/2025-03-26-oauth-endpoint-fallback":   {[]string{"2025-03-26"}, (*authDriver).logInAndCall},

	// Who the client is: the document of clientMetadataUrl, which does not exist, though clients
	// could be registered; the client of the entry; the way of authentication that the issuer lists.
	"auth/basic-cimd":                {since2025November, (*authDriver).logInAndCall},
	"auth/pre-registration":          {since2025November, (*authDriver).logInAndCall},
	"auth/token-endpoint-auth-basic": {since2025June, (*authDriver).logInAndCall},
	"auth/token-endpoint-auth-post":  {since2025June, (*authDriver).logInAndCall},
	"auth/token-endpoint-auth-none":  {since2025June, (*authDriver).logInAndCall},
	// Without a person: by a secret, and by an assertion whose audience is the issuer.
	"auth/client-credentials-basic": {since2025November, (*authDriver).try},
	"auth/client-credentials-jwt":   {since2025November, (*authDriver).try},

	// Scopes: the scopes of the challenge; else of the resource's metadata; else no parameter.
	"auth/scope-from-www-authenticate":  {since2025November, (*authDriver).logInAndCall},
	"auth/scope-from-scopes-supported":  {since2025November, (*authDriver).logInAndCall},
	"auth/scope-omitted-when-undefined": {since2025November, (*authDriver).logInAndCall},
	// offline_access is asked for exactly if the issuer lists it.
	"auth/offline-access-scope":         {since2026, (*authDriver).logInAndCall},
	"auth/offline-access-not-supported": {since2026, (*authDriver).logInAndCall},
	// A call needs a scope that the list does not need: the second login asks for both.
	"auth/scope-step-up": {since2025November, (*authDriver).stepUp},
	// The server refuses every token for its scope, which was granted: 3 logins at most.
	"auth/scope-retry-limit": {since2025November, (*authDriver).logInForNothing},

	// The server changes its issuer after the first request: a new registration, no old client.
	"auth/authorization-server-migration": {since2026, (*authDriver).logInTwice},

	// The iss of the redirect is the iss of the metadata, byte for byte, or no code is redeemed.
	"auth/iss-supported":         {since2026, (*authDriver).logInAndCall},
	"auth/iss-not-advertised":    {since2026, (*authDriver).logInAndCall},
	"auth/iss-supported-missing": {since2026, fails(true)},
	"auth/iss-wrong-issuer":      {since2026, fails(true)},
	"auth/iss-unexpected":        {since2026, fails(true)},
	"auth/iss-normalized":        {since2026, fails(true)},
	// Metadata of another resource, or of another issuer: no person is sent anywhere.
	"auth/resource-mismatch":        {since2026, fails(false)},
	"auth/metadata-issuer-mismatch": {since2026, fails(false)},
}

// The router logs in at servers that the official suite protects.
func TestAuthConformance(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	self, err := os.Executable()
	expect.OK(t, err)
	for scenario, s := range authScenarios {
		revisions, eras := s.revisions[len(s.revisions)-1:], []string{"modern"}
		if revisions[0] != since2026[0] {
			eras = []string{"legacy"}
		}
		if os.Getenv(everyEraVariable) != "" {
			revisions, eras = s.revisions, []string{"legacy", "modern"}
		}
		for _, revision := range revisions {
			for _, era := range eras {
				t.Run(strings.TrimPrefix(scenario, "auth/")+"/"+revision+"/"+era, func(t *testing.T) {
					t.Parallel()
					command := fmt.Sprintf("env %s=%s %s=%s %s -test.run=TestAuthConformanceDriver", builtVariable, metarouter, eraVariable, era, self)
					result := external.ClientConformance(t, command, scenario, revision)
					for _, failed := range append(result.Failed(), result.Warned()...) {
						t.Error(failed)
					}
					if result.Passed() == 0 {
						t.Error("no check passed")
					}
				})
			}
		}
	}
}

// TestAuthConformanceDriver is the command that the suite starts: the MCP client of a router, and
// the browser of its person.
func TestAuthConformanceDriver(t *testing.T) {
	scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	if scenario == "" {
		t.Skip("this is no test: the conformance suite runs it")
	}
	s := prepare(t, entries{"suite": authEntry(t, scenario)}, map[string]any{"listWait": "60s"})
	s.home = t.TempDir()
	router := s.start("--mode", "direct")
	d := &authDriver{
		ctx: within(t), setup: s, router: router,
		session: open(t, router, router.Notifications, os.Getenv(eraVariable), `{}`, nil),
	}
	expect.OK(t, authScenarios[scenario].drive(d), "%s", router.Stderr())
	expect.OK(t, router.Close())
}

// authEntry returns the entry of the suite's server, with what the scenario says of the client.
func authEntry(t *testing.T, scenario string) map[string]any {
	oauth := map[string]any{}
	var context struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		PrivateKey   string `json:"private_key_pem"`
		Algorithm    string `json:"signing_algorithm"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		expect.OK(t, json.Unmarshal([]byte(text), &context))
		oauth["clientId"] = context.ClientID
	}
	if context.ClientSecret != "" {
		t.Setenv("SUITE_SECRET", context.ClientSecret)
		oauth["clientSecret"] = "${SUITE_SECRET}"
	}
	if context.PrivateKey != "" {
		t.Setenv("SUITE_KEY", context.PrivateKey)
		oauth["privateKey"], oauth["algorithm"] = "${SUITE_KEY}", context.Algorithm
	}
	switch scenario {
	case "auth/client-credentials-basic", "auth/client-credentials-jwt":
		oauth["grant"] = "client_credentials"
	case "auth/basic-cimd":
		oauth["clientMetadataUrl"] = "https://conformance-test.local/client-metadata.json"
	}
	entry := map[string]any{"type": "http", "url": flag.Arg(0)}
	if len(oauth) > 0 {
		entry["oauth"] = oauth
	}
	return entry
}

type authDriver struct {
	ctx    context.Context
	setup  *setup
	router *mcptest.Client
	*session
}

// suiteTool is the only tool of the suite's servers.
const suiteTool = "suite__test-tool"

// try calls the tool. The error says why it has not run.
func (d *authDriver) try() error {
	raw, err := d.call(d.ctx, suiteTool, map[string]any{})
	if err != nil {
		return err
	}
	var r result
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	if r.IsError || r.text() != "test" {
		return errors.New(r.text())
	}
	return nil
}

// loginCommand matches the command by which a person logs in, in the refusal of a call.
var loginCommand = regexp.MustCompile(`"metarouter login suite([^"]*)"`)

// refused expects a call to be refused for want of a login, and returns the flags of the command
// that the refusal names.
func (d *authDriver) refused() (flags []string, err error) {
	if err = d.try(); err == nil {
		return nil, errors.New("a call ran without a login")
	}
	command := loginCommand.FindStringSubmatch(err.Error())
	if command == nil {
		return nil, fmt.Errorf("the refusal does not say how to log in: %w", err)
	}
	return strings.Fields(command[1]), nil
}

// logIn runs the command that logs in, and follows its URL as a browser. The error is that of the
// command, with what it wrote. browsed says whether there was a URL.
func (d *authDriver) logIn(flags ...string) (browsed bool, err error) {
	c := d.setup.begin(append([]string{"login", "suite", "--no-browser"}, flags...)...)
	for line := range c.lines {
		browsed = true
		if _, _, err := fakeissuer.Follow(d.ctx, line); err != nil {
			c.cmd.Process.Kill() // it would wait for minutes
			return browsed, err
		}
	}
	if stderr, code := c.end(); code != 0 {
		return browsed, fmt.Errorf("exit code %d: %s", code, stderr)
	}
	return browsed, nil
}

// logInAndCall is refused, logs in, and calls.
func (d *authDriver) logInAndCall() error {
	flags, err := d.refused()
	if err == nil {
		_, err = d.logIn(flags...)
	}
	if err != nil {
		return err
	}
	return d.try()
}

// stepUp logs in and is refused, twice: first for want of any token, then of a scope.
func (d *authDriver) stepUp() error {
	for range 2 {
		flags, err := d.refused()
		if err == nil {
			_, err = d.logIn(flags...)
		}
		if err != nil {
			return err
		}
	}
	return d.try()
}

// logInTwice logs in at one issuer, then at the other. The first login works for one request, so
// that the command may see it fail.
func (d *authDriver) logInTwice() error {
	for range 2 {
		flags, err := d.refused()
		if err != nil {
			return err
		}
		if browsed, err := d.logIn(flags...); !browsed {
			return err
		}
	}
	return d.try()
}

// logInForNothing logs in twice, as a person who tries once more.
func (d *authDriver) logInForNothing() error {
	for range 2 {
		if browsed, err := d.logIn(); err == nil || !browsed {
			return fmt.Errorf("a browser was sent: %t; the login: %v", browsed, err)
		}
		if err := d.try(); err == nil {
			return errors.New("a call ran")
		}
	}
	return nil
}

// fails has a login fail, after a browser was sent somewhere or before.
func fails(browser bool) func(*authDriver) error {
	return func(d *authDriver) error {
		if browsed, err := d.logIn(); err == nil || browsed != browser {
			return fmt.Errorf("a browser was sent: %t; the login: %v", browsed, err)
		}
		if err := d.try(); err == nil {
			return errors.New("a call ran")
		}
		return nil
	}
}
