package secret

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A secret that a server was given and prints is replaced by its name.
func TestConcealer(t *testing.T) {
	s := Launch{
		Env: map[string]string{
			"API_TOKEN": "/begins-like-a-path", "K": "ab12c", "DB": "postgres://u:pw99@h/db", "NODE_ENV": "production",
			"ROOT": "/srv/files", "AUTH": "true", "OAUTH_PORT": "3000", "PASSWORD": "wxyz",
		},
		Headers: map[string]string{"Authorization": "Bearer tok-1"},
		Args:    []string{"--api-key", "hunter3", "--password=pw77", "--header", "X-Token: Bearer head-1", "https://h.example/team-alpha/mcp?apiKey=query1&page=query3", "--token", "--verbose", "--secret=", "positional"},
		URL:     "https://me:mine1@h.example/s/NzE0ZmQ1ODItNDg1Yy00YjM2LWE4/mcp?k=query2",
	}
	conceal := s.Concealer()
	for text, want := range map[string]string{
		"bad token /begins-like-a-path":      "bad token ${API_TOKEN}",
		"ab12c, postgres://u:pw99@h/db":      "${K}, ${DB}",
		"user u, password pw99":              "user u, password ${DB}",
		"wxyz":                               "${PASSWORD}",
		"in production, true, 3000":          "in production, true, 3000",
		"/srv/files positional":              "/srv/files positional",
		"Bearer tok-1 tok-1":                 "<Authorization> <Authorization>",
		"hunter3 pw77 head-1 query1 query2":  "… … … … …",
		"query3 team-alpha":                  "… …",
		"mine1 NzE0ZmQ1ODItNDg1Yy00YjM2LWE4": "… …",
	} {
		expect.Equal(t, conceal(text), want, "%q is shown as", text)
	}
	secrets := s.Secrets()
	for value, want := range map[string]bool{s.Args[5]: true, "query1": true, "hunter3": true, "pw77": true, "tok-1": true, "pw99": true, "--verbose": false, "": false} {
		expect.Equal(t, slices.Contains(secrets, value), want, "%q is a secret", value)
	}
}

func TestMasked(t *testing.T) {
	words := []string{
		"npx", "-y", "@scope/pkg@1.2.3", "--api-key", "one", "--token=two", "--header", "Authorization: Bearer three",
		"https://u:four@h/mcp?k=five&l=six", "sk0123abcd4567EFGHijklmnop", "TOKEN=seven run", "--tokens", "/a/long/path/that/is/0123456789/no/secret", `C:\key\path`,
	}
	want := "npx|-y|@scope/pkg@1.2.3|--api-key|…|--token=…|--header|Authorization: …|https://…@h/mcp?k=…&l=…|…|TOKEN=…|--tokens|…|C:\\key\\path"
	expect.Equal(t, strings.Join(Words(words, "…"), "|"), want, "masked")
	if got := strings.Join(Words([]string{"-c", "export API_KEY='x y' MY_TOKEN=abc; run"}, "…"), "|"); strings.Contains(got, "abc") || !strings.Contains(got, "run") {
		t.Errorf("a script is shown as %q", got)
	}
	expect.Equal(t, URL("https://h/s/NzE0ZmQ1ODItNDg1Yy00YjM2LWE4/mcp", "…"), "https://h/s/…/mcp", "url")
}
