package clients

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// In these strings words with hush are hidden and words with show are not, as an argument
// and as the value of a key that says nothing.
var maskedStrings = []string{
	// tokens by their form
	"sk-hush", "sk-hush1.2/3+4==", "pk-hush", "ghp_hush", "gho_hush", "ghs_hush", "ghz_hush", "github_pat_hush", "glpat-hush", "xoxb-hush", "AKIAhush", "eyJhush", "eyJhush.hush.hush", "hf_hush", "npm_hush", "ntn_hush",
	"secret_show", "secret_hush1AbCdEfGhIjKlMnOpQrStUv0123456789abcdef", "Bearer hush", "Bearer hush hush", "Basic hush", "Basic hush==", "Bearer ${V}-hush",
	"show sk-hush56789 show", "show (ghp_hush56789)", "show:glpat-hush56789", "show xoxp-hush56789", "show,AKIAHUSHhush1", "show hf_hush56789", "show npm_hush56789", "show ntn_hush56789", "show figd_hush56789", "show github_pat_hush56789",
	"curl -H 'X: Bearer hush56' show", "show basic hush56", "X: \"bearer  hush56\"", "showauth Bearer ${SHOW}", "show Bearer $SHOW",
	"risk-show", "desk-show12345", "flask-show", "monkey-show", "show AKIA",

	// names
	"--token=hush", "--api-token=hush hush", "TOKEN=hush", "token_count=hush", "--tokens=hush", "--client-secret=hush", "--secret-id=hush", "--passwd=hush", "--PASSWORD=hush", "--passwort=hush", "--passphrase=hush", "--api-key=hush", "--apikey=hush", "--api.key=hush", "--api_key=hush",
	"--access-key=hush", "--access_key_id=hush", "--private-key=hush", "--private-key-file=hush", "--credential=hush", "--credentials=hush", "--auth=hush", "--oauth=hush", "--auth-header=hush", "--cookie=hush", "--bearer=hush", "--session=hush", "--session-id=hush",
	"--account=hush", "--account_name=hush", "--signature=hush", "--email=hush", "--my-email=hush", "--key=hush", "KEY=hush", "--my-key=hush", "my.key=hush", "--pat=hush", "GITHUB_PAT=hush", "--pwd=hush", "PWD=hush", "--pw=hush", "DB_PW=hush", "--pass=hush hush", "PASS=hush", "--pin=hush", "--dsn=hush", "SENTRY_DSN=hush",
	"-u=hush", "--user=hush", "--u=hush", "--pass=", "token=", "--token=${SHOW}", "--token=${env:SHOW}", "--token=Bearer ${SHOW}", "--header=Authorization: hush", "clé_token=hush",
	"X-Api-Key: hush", "X-Api-Key: hush hush; hush=hush", "Authorization: Bearer hush", "Authorization: Basic hush", "Authorization: hush, hush", "Cookie: hush=hush; hush=hush", "X-Auth:hush", "Token: ${SHOW}", "Authorization: Bearer ${SHOW}", "X-Session-Id: hush",
	"key: hush", "x-key: hush", "api_key: hush", "My-Pat: hush", "Accept: show", "Content-Type: show/json", "X-Show: ${SHOW}", "api key: hush", "the api key=hush",
	"--port=show", "--showkey", "--level=show", "x=show", "--monkey=show", "--spin=show", "--compass=show", "--hotkey=show", "SHOW=1", "user=show", "--username=show", "--users=show", "--usage=show", "--pattern", "--patx", "show", "--show", "-s", "--name=show",
	"--monkeys=show", "--bypass=show", "--shipping=show", "--admin=show", "--output=show", "https://show.example/show?", "--db=show", "--root=/show", "/home/show/tokens/x", "@show/auth-server", "show@1.2.3", "/show/secret", "C:\\show\\secret.json", "${SHOW}", "${env:SHOW}", "${input:SHOW}", "Bearer ${SHOW}",
	"${API_TOKEN:-hush}", "${SHOW:-show}", "prefix-${SHOW}", "${A_KEY:-hush}",

	"--db-path=show", "--path=show", "--key-path=hush", "--keyboard=show", "--keyfile=show", "--passthrough=show", "--patch=show", "--jwt=hush", "--otp=hush", "MY_KEYS=hush", "sig=hush", "--storepass=hush",

	// URLs
	"https://show:hush@show.example/show", "https://hush@show.example", "db://show:hu@hush@show/show", "postgres://show:hush'hush@show", `db://show:hush"hush@show`, "db://show:<hush>@show", "https://:hush@show", "${SHOW}://show:hush@show", "show https://a:hush@show https://b:hush@show",
	"--db=postgres://show:hush@show/db", "jdbc:postgresql://show/db?user=hush&password=hush", "https://show/mcp?key=hush&x=hush#f", "https://show/p?x=hush", "https://show/mcp?token=hush#hush", "/mcp?x=hush&show=hush", "show&x=hush", "?a=hush",
	"https://show/s/sk-hush/show", "https://show/s/hush4567890123456/show", "https://show/hush-4567890_23456.json", "https://show/b1a2/v2", "https://show/show-with-no-digit-at-all/show", "https://show/@scope/show-server-everything@2026.1.14", "https://show.example/@show/b",
	"https://show:${SHOW}@show/show", "https://show/mcp?show=${SHOW}&key=${SHOW}", "https://show/mcp?x=hush'hush", "https://show/mcp?x='hush' show",
	"//show.example/a-long-segment-with-digits-show-1", "https://show:8080/show", "https://${SHOW}/show", "mongodb+srv://show:hush@show/?retryWrites=hush",

	// the commands of shells
	"export API_KEY=hush X=1; run-show --token 'hush' --level show --auth ${SHOW}", "API_TOKEN=hush hush", "TOKEN=\"hush\" hush", "a=1 TOKEN=hush;show", "a=1 TOKEN=hush&&show", "run --api-key hush show", "run --api-key \"hush\" show", "run\n--password\nhush\nshow", "run --my-key hush", "run --my-pat hush", "run --db-pass hush", "run --x-pwd hush",
	"run --auth-type hush show", "run --session-name 'hush'", "run --account hush", "run --email hush@hush", "run --signature hush", "run -token hush", "run ---token hush", "run --token --hush", "run --password -hush", "a=1 my_key=hush", "a=1 my.key_data=hush", "a=1 key=hush", "a=1 keys=hush", "a=1 my-pass-2=hush", "a=1 my_pat_x=hush", "a=1 MY_PWD_X=hush",
	"a=1 X_ACCOUNT=hush", "a=1 my_email=hush show", "a=1 auth_type=hush", "a=1 author: hush show", "run --author hush show", "curl -H 'Authorization: Bearer hush' show", "curl -H \"X-Api-Key: hush\" show", "curl -H 'Cookie: hush=1' show", "curl -H 'Authorization: Bearer ${SHOW}' show", "a=1 TOKEN=${SHOW} show", "a=1 TOKEN='${SHOW}' show", "a=1 TOKEN: token hush show",
	"a=1 TOKEN=''hush''", "a=1 TOKEN=\"\"hush\"\"", "a=1 TOKEN='\"hush\"'", "a=1 '\"TOKEN\"'=hush", "a=1 TOKEN=\\'hush\\'", "a=1 TOKEN = hush", "a=1 TOKEN : hush", "a=1 _TOKEN=hush", "a=1 1token=hush", "a=1 x/token=hush", "a=1 $token=hush", "run --port show --level show", "cd /show && ls -la show", "echo show=show", "a=1 name=show", "a=1 monkey=show", "run --name show",
	"curl -u hush:hush show", "a=1 TOKEN=\"hush hush\" show", "a=1 TOKEN=\\\"hush\\\" show", "COOKIE=hush TOKEN=\"hush\"", "run -y --token hush show", "a=1 TOKEN=\"\"\"hush\"\"\"", "a=1&TOKEN=Bearer hush", "keytool -storepass hush", "a=1 x-pat=${SHOW} show",
	"a=1 token= hush", "X=1 token:\nhush\nshow", "a=1 token==hush", "a=1 password=hush/hush+hush=", "a=1 token=hush}", "a=1 token=(hush)",

	// JSON in strings
	`{"Authorization": "Bearer hush", "a": "show"}`, `{"token":"hush","a":"show"}`, `{"a":{"apiKey":"hush"},"b":"show"}`, `{\"token\":\"hush\",\"a\":\"show\"}`, `{\\\"token\\\": \\\"hush\\\"}`, `{'password': 'hush', 'a': 'show'}`, `{"env":{"MY_KEY":"hush"},"b":"show"}`, `{token: hush, a: show}`,
	`{"url":"https://show:hush@show","b":"show"}`, `{"token": "${SHOW}", "a": "show"}`, `{"pin": 1234, "email": "hush"}`, `["show", "show"]`, `{"name": "show"}`, `[{"key": "hush"}]`, `{"a_pat":"hush"}`, `{"x-pass":"hush"}`, `{"auth":"hush"}`, `{"a":"https://show/?x=hush","b":"show"}`, `{"token":"","a":"show"}`,
	"show\"show'show\\show", "",
}

// maskedDocuments are documents in the same way.
var maskedDocuments = []string{
	`{"env": {"SHOW": "hush", "show": 5, "e": "", "v": "${SHOW}", "w": "Bearer ${SHOW}", "x": "a${V}hush", "t": true}}`, `{"headers": {"Show": ["hush", {"show": "hush"}]}}`, `{"Env": {"A": "hush"}, "environment": {"A": "hush"}, "header": "show", "environment": "show"}`, `{"secrets": {"a": "hush", "b": {"c": ["hush"], "d": 5, "e": "${SHOW}"}}, "credentials": [{"a": "hush"}], "http_headers": {"X": "hush"}, "envs": ["A=hush"], "inheritEnv": ["SHOW"]}`,
	`{"mcpServers": {"env": {"command": "show", "args": ["show"], "env": {"A": "hush"}}, "headers": {"url": "show", "headers": {"A": "hush"}}, "token": "hush"}}`, `{"mcpServers": {"mcpServers": {"env": {"command": "hush"}}}}`,
	`{"token": "hush", "tokens": ["hush", 1], "show": "show"}`, `{"primaryApiKey": "hush"}`, `{"api key": "hush"}`, `{"oauthAccount": {"accountUuid": "hush", "emailAddress": "hush", "x": "hush"}}`, `{"session": "hush", "email": "hush", "signature": "hush", "author": "hush"}`,
	`{"my-pat": "hush", "key": "hush", "a.key": "hush", "pwd": "hush", "pw": "hush", "pass": "hush", "db_pass": "hush", "pin": "hush", "dsn": "hush"}`, `{"-u": "hush", "--user": "hush", "user": "show", "u": "show", "username": "show", "spin": "show"}`,
	`{"auth": {"type": "hush", "x": "hush", "token": "hush"}, "passwords": ["hush", "--hush", {"x": "hush"}, ["hush"]]}`, `{"token": "-hush", "password": "${SHOW}", "cookie": "Bearer ${SHOW}"}`,
	`{"args": ["--token", "hush", "--port", "show", "--api-key=hush", "x=show", "API_TOKEN=hush"]}`, `{"args": ["--key", "hush", "-u", "hush:hush", "--pass=hush hush", "TOKEN: ${SHOW}", "-c", "show", "--pat", "hush", "--token", "--show"]}`,
	`{"args": ["--user", "hush", "--email", "hush", "--account", "hush", "--session", "hush", "--token", "${SHOW}", "show", "--pwd", "hush", "--dsn", "hush", "-p", "show", "--password", 5, "show"]}`, `{"args": ["--header", "Authorization: Bearer hush", "--db", "show", "-y", "show"]}`,
	`{"args": ["--token", ["hush"], "show"], "command": "/show/run", "cwd": "/show", "type": "show"}`, `{"url": "https://show:hush@show/s/hush4567890123456/mcp?k=hush", "name": "show"}`, `{"long": "` + strings.Repeat("hush ", 201) + `"}`, `{"long": "` + strings.Repeat("show ", 200) + `"}`,
	"{\n// \"API_KEY\": \"hush\", \"x\": \"show\", \"TOKEN\": \"${SHOW}\" ghp_hush567890\n}", "{ /* \"email\": \"hush\",\n\"show\": \"show\", sk-hush56789 */ \"a\": \"show\", // \"auth\" : \"hush\"\n \"b\": [\"show\", /* \"my.key\": \"hush\" show */ ],\n} // \"pin\": \"hush\" show",
	"{// \"url\": \"https://show:hush@show/?k=hush\", \"b\": [\"--x=${SHOW}\", \"--token=hush\"]\n\"show\": /* sk-hush56789\nTOKEN=hush\n\"show\" */ \"show\"}", `{"https://show:hush@show": "show", "-jwt": ["hush", "-hush"], "args": ["-jwt", "hush", "-jwt", "-show", "show"]}`,
	`{"ghp_hush56789": "show", "show": {"show": "show"}}`, `{"a": [1, true, null, "show"], "n": 12345678901234567890, "max": 4}`,
}

func maskedText(text string) string {
	return marks().ReplaceAllString(strings.Join(masked("f", []byte(text), 0, len(lines([]byte(text)))), "\n"), "")
}

// Secrets are hidden, and all else is shown.
func TestMaskHides(t *testing.T) {
	documents := slices.Clone(maskedDocuments)
	for _, text := range maskedStrings {
		literal := quoted(text)
		documents = append(documents, fmt.Sprintf(`{"command": "npx", "args": ["-y", "--flag=x", %s, "x"]}`, literal), fmt.Sprintf(`{"x": %s}`, literal))
	}
	word := regexp.MustCompile(`(?i)[\pL\d]*(?:hush|show)[\pL\d]*`)
	for _, text := range documents {
		got := maskedText(text)
		for _, w := range word.FindAllString(text, -1) {
			if hush := strings.Contains(strings.ToLower(w), "hush"); strings.Count(got, w) != strings.Count(text, w) != hush || hush && strings.Contains(got, w) {
				t.Errorf("%s\nis shown as\n%s\nwith %s", text, got, w)
				break
			}
		}
		// A line alone is shown as it is among the others.
		data := []byte(strings.ReplaceAll(text, `", "`, "\",\n\""))
		for i, line := range masked("f", data, 0, len(lines(data))) {
			expect.Equal(t, masked("f", data, i, i+1)[i], line, "%s: the line alone", data)
		}
	}
}
