package configfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func textOf(t *testing.T, text string) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), ".mcp.json")
	expect.OK(t, os.WriteFile(file, []byte(text), 0o600))
	c, err := config.LoadText(file)
	if _, refused := errors.AsType[config.Problem](err); !refused { // whose text is described all the same
		expect.OK(t, err)
	}
	return c
}

func describe(c config.Config) string { return Describe(c.Text, nil) }

// A part that differs from the approved text is marked.
func TestDescribeMarksEdits(t *testing.T) {
	c := textOf(t, `{
  "mcpServers": {"same": {"command": "x", "timeout": "1s"}, "other": {"command": "x", "timeout": "2s"}, "more": {"command": "x"}},
  "metarouter": {"mode": "auto"}
}`)
	const plain = "  same\n    command        x\n    timeout        1s\n  other\n    command        x\n    timeout        2s\n  more\n    command        x\n  metarouter:\n    mode           auto\n"
	marked := strings.NewReplacer("other\n", "other (edited)\n", "more\n", "more (new)\n", "metarouter:", "metarouter: (edited)").Replace(plain)
	for _, test := range []struct {
		since *trustfile.Untrusted
		want  string
	}{
		{nil, plain},
		{&trustfile.Untrusted{Added: []string{"more"}}, plain},
		{&trustfile.Untrusted{Before: true, Added: []string{"more"}, Edited: []string{"other"}, Settings: true}, marked},
	} {
		expect.Equal(t, Describe(c.Text, test.since), test.want)
	}
}

// A long key with many values below it takes memory in proportion to what is shown.
func TestDescribeLongKey(t *testing.T) {
	c := textOf(t, `{"mcpServers": {"a": {"`+strings.Repeat("k", 100_000)+`": {`+strings.Repeat(`"x":1,`, 5000)+`}}}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	expect.Contains(t, describe(c), "\nThis is not all")
	runtime.ReadMemStats(&after)
	if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 100 {
		t.Errorf("it took %d MiB", mib)
	}
}

// Each stored script is shown, marked if it is new or edited, with its description quoted.
func TestDescribeScripts(t *testing.T) {
	c := textOf(t, `{"metarouter": {"scripts": {"folder": "scripts", "calls": 7}}}`)
	folder := filepath.Join(filepath.Dir(c.Files[0]), "scripts")
	expect.OK(t, os.Mkdir(folder, 0o700))
	for name, code := range map[string]string{"a.js": "/* Hello\x1b[2J. */", "b.js": "/* Says\n" + strings.Repeat("x", 2000) + ". */", "bad.js": "return 1"} {
		expect.OK(t, os.WriteFile(filepath.Join(folder, name), []byte(code), 0o600))
	}
	c, err := config.LoadText(c.Files[0])
	expect.OK(t, err)
	got := Describe(c.Text, &trustfile.Untrusted{Before: true, Added: []string{"scripts/b.js"}})
	const said = " bytes that runs with the rights of each caller; you approve all of it: read the file)\n"
	for _, want := range []string{
		"    scripts.folder scripts\n",
		"  scripts/a.js\n    is             \"Hello\\x1b[2J.\"\n    (a script of 16" + said + "  scripts/b.js (new)\n    is             \"Says\\nxxx", "x.\"\n    (a script of 2012" + said,
		"READ THE FILE",
	} {
		expect.Contains(t, got, want, "without")
	}
	expect.Equal(t, strings.Contains(got, "bad.js"), false, "described as\n%s", got)
}

func TestDescribe(t *testing.T) {
	t.Setenv("TOKEN", "value-of-the-variable")
	got := describe(textOf(t, `{
  // a comment
  "theme": "not ours",
  "mcpServers": {
    "github": {
      "command": "npx", "args": ["-y", "pkg@1", "two words", "--token=${TOKEN}"], "cwd": "sub", "timeout": "1m", "inheritEnv": ["AWS_PROFILE"],
      "env": {"API_TOKEN": "written-here", "OTHER": "${TOKEN}", "NODE_OPTIONS": "--require ./x.js token=1", "GIT_ASKPASS": "./run.sh", "DB_URL": "pg://u:pw@h/d"},
      "envFile": ".env", "tools": {"timeout": {"slow": "1m"}, "rename": {"delete": "read"}}, "disabled": true, "autoApprove": []
    },
    "docs\u001b[2J": {"url": "https://u:pw@example.com/mcp?key=secret", "headers": {"Authorization": "Bearer ab${TOKEN:-secret}cd", "X": "secret"}}
  },
  "metarouter": {
    "mode": "auto", "accessLog": "calls.log",
    "http": {"addr": "0.0.0.0:1", "tokens": ["secret", "${TOKEN}"], "maxBody": 1},
    "classification": {"type": "mcp", "url": "https://classes.example", "categories": [{"name": "c", "system_prompt": "say \"x\""}]}
  }
}`))
	want := `  github
    command        npx
    args           -y pkg@1 "two words" --token=${TOKEN}
    cwd            sub
    timeout        1m
    inheritEnv     AWS_PROFILE
    env.API_TOKEN  •••
    env.OTHER      ${TOKEN}
    env.NODE_OPTIONS "--require ./x.js token=1"
    env.GIT_ASKPASS ./run.sh
    env.DB_URL     pg://•••@h/d
    envFile        .env
    tools.timeout.slow 1m
    tools.rename.delete read
    disabled       true
    autoApprove    []
  "docs\x1b[2J"
    url            https://•••@example.com/mcp?key=•••
    headers.Authorization "Bearer •••${TOKEN:-•••}•••"
    headers.X      •••
  metarouter:
    mode           auto
    accessLog      calls.log
    http.addr      0.0.0.0:1
    http.tokens    ••• ${TOKEN}
    http.maxBody   1
    classification.type mcp
    classification.url https://classes.example
    classification.categories[0].name c
    classification.categories[0].system_prompt "say \"x\""
`
	expect.Equal(t, got, want)
}

// A value that is named like a secret is hidden at whatever place it stands, also where nothing reads
// it. A command and other values for a program are shown.
func TestDescribeHidesMisplacedSecrets(t *testing.T) {
	for _, text := range []string{
		`{"metarouter": {"tokens": %s}}`, `{"metarouter": {"token": %s}}`, `{"metarouter": {"http": {"auth": {"user": %s}}}}`,
		`{"metarouter": {"profiles": {"work": {"arguments": {"*": {"apiKey": %s}}}}}}`,
		`{"metarouter": {"password": %s}}`, `{"metarouter": {"apiKey": %s}}`, `{"metarouter": {"classification": {"key": %s}}}`,
		`{"metarouter": {"unknown": [{"secret": %s}]}}`, `{"metarouter": {"env": {"TOKEN": %s}}}`, `{"metarouter": {"Headers": {"X": %s}}}`,
		`{"mcpServers": {"a": {"headers": %s}}}`, `{"mcpServers": {"a": {"requestInit": {"headers": {"X": %s}}}}}`,
		`{"mcpServers": {"a": {"authorization": %s}}}`, `{"mcpServers": {"a": {"oauth": {"clientSecret": %s}}}}`,
		`{"mcpServers": {"a": {"env": %s}}}`, `{"mcpServers": {"a": {"env": [{"name": "X", "value": %s}]}}}`, `{"mcpServers": {"a": {"env": {"API_TOKEN": %s}}}}`,
		`{"mcpServers": {"token": %s}}`, `{"tokens": %s, "a": {"command": "x"}}`,
	} {
		for _, value := range []string{`"abc123"`, `123123`, `["abc123"]`, `["x", {"y": "abc123"}]`} {
			if got := describe(textOf(t, fmt.Sprintf(text, value))); strings.Contains(got, "123") || !strings.Contains(got, hidden) {
				t.Errorf("%s with %s is shown as\n%s", text, value, got)
			}
		}
	}
	for _, text := range []string{
		`{"mcpServers": {"a": {"command": "x123"}}}`, `{"mcpServers": {"a": {"command": {"path": "x123"}}}}`, `{"mcpServers": {"token": {"command": "x123"}}}`,
		`{"mcpServers": {"a": {"tools": {"rename": {"get_token": "x123"}}}}}`,
		`{"metarouter": {"profiles": {"token": {"servers": ["x123"]}}}}`, `{"metarouter": {"profiles": {"token": {"tools": {"allow": ["x123"]}}}}}`,
		`{"metarouter": {"profiles": {"work": {"arguments": {"github:*": {"owner": "x123"}}}}}}`,
		`{"metarouter": {"http": {"tlsKey": "x123"}}}`, `{"metarouter": {"classification": {"categories": [{"keywords": "x123"}]}}}`,
	} {
		expect.Contains(t, describe(textOf(t, text)), "x123", "%s is shown as", text)
	}
}

// Values of arguments that are named like a secret are hidden, but nothing that may run.
func TestDescribeArguments(t *testing.T) {
	for args, want := range map[string]string{
		`"--token", "s3cret", "run"`:                                                                     `--token ••• run`,
		`"--api-key", "+/s3=", "--password=a=b", "--secret", 1`:                                          `--api-key ••• --password=••• --secret •••`,
		`"--api_key=s3c/ret+=", "--token", "--verbose"`:                                                  `--api_key=••• --token --verbose`,
		`"-H", "Authorization: Bearer s3cret"`:                                                           `-H "Authorization: Bearer •••"`,
		`"--header", "X-Api-Key:s3cret", "--header=Private-Token: s3cret"`:                               `--header X-Api-Key:••• "--header=Private-Token: •••"`,
		`"-e", "API_TOKEN=s3cret", "-e", "REGION=eu", "auth:1.2"`:                                        `-e API_TOKEN=••• -e REGION=eu auth:1.2`,
		`"--token", "${TOKEN}", "--key=${K:-s3cret}x", "--secret", "${cmd:pass a}"`:                      `--token ${TOKEN} --key=${K:-•••}••• --secret "${cmd:pass a}"`,
		`"-y", "server-tools-20250101", "sk-0123456789abcdef", "https://h/ab12cd34ef56gh78ij90?token=1"`: `-y server-tools-20250101 sk-0123456789abcdef https://h/ab12cd34ef56gh78ij90?token=1`,
		// A command that may run is shown.
		`"--token", "x&evil"`:                         `--token x&evil`,
		`"--token", "./evil", "--key", "/etc/evil"`:   `--token ./evil --key /etc/evil`,
		`"-c", "token=$(evil)", "-c", "token='evil'"`: `-c token=$(evil) -c token='evil'`,
		"\"-e\", \"--token==`evil`\"":                 "-e --token==`evil`",
		`"-c", "-H", "Authorization: ; evil"`:         `-c -H "Authorization: ; evil"`,
		`"--password-command", "evil", "-c", "credential.helper=evil", "--always-auth", "evil"`: `--password-command evil -c credential.helper=evil --always-auth evil`,
	} {
		for _, format := range []string{`{"mcpServers": {"a": {"args": [%s]}}}`, `{"mcpServers": {"a": {"command": {"args": [%s]}}}}`} {
			got := describe(textOf(t, fmt.Sprintf(format, args)))
			if _, after, _ := strings.Cut(got, "args"); strings.TrimSpace(after) != want {
				t.Errorf("%s is shown as\n%s\nwant %s", args, got, want)
			}
		}
	}
}

// A file without a root key has servers, and a key that is there twice is shown twice: the
// approval covers both.
func TestDescribeDuplicates(t *testing.T) {
	got := describe(textOf(t, `{"a": {"command": "x", "command": "y"}, "metarouter": {"accessLog": "1", "accessLog": "2"}}`))
	for _, want := range []string{"command        x\n", "command        y\n", "accessLog      1", "accessLog      2"} {
		expect.Contains(t, got, want, "without")
	}
}

// The rights of a token are shown, and the token is not.
func TestDescribeTokens(t *testing.T) {
	got := describe(textOf(t, `{"metarouter": {"http": {"tokens": ["one-secret", {"token": "two-secret${T}", "name": "ci", "profile": "work", "role": "admin"}]}}}`))
	for _, want := range []string{"http.tokens[0] •••\n", "http.tokens[1].token •••${T}\n", "http.tokens[1].name ci\n", "http.tokens[1].profile work\n", "http.tokens[1].role admin\n"} {
		expect.Contains(t, got, want, "without")
	}
}

// A long description is cut, and its last line says so.
func TestDescribeIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&b, `"s%d": {"command": "x"},`, i)
	}
	for _, text := range []string{
		`{"mcpServers": {` + b.String() + `}}`,
		`{"mcpServers": {"a": {"command": "` + strings.Repeat("x\u001b", 100_000) + `"}}}`,
		`{"mcpServers": {"a": {"env": {"` + strings.Repeat("K", 1<<20) + `": ""}}}}`,
		`{"mcpServers": {"a": {"args": ["` + strings.Repeat(`x","`, 100_000) + `"]}}}`,
	} {
		text = strings.ReplaceAll(text, "\x1b", `\u001b`)
		got := describe(textOf(t, text))
		if len(got) > 100_000 || !strings.HasSuffix(got, "READ THE FILE before you approve it.\n") || strings.Contains(got, "\x1b") {
			t.Errorf("%.50s…: %d bytes that end in %q", text, len(got), got[max(0, len(got)-100):])
		}
	}
}

// A path adds no line and no command to the command that a person is to type.
func TestCommandIsOneLine(t *testing.T) {
	for path, want := range map[string]string{"/a/.mcp.json": "/a/.mcp.json", "/a\nmetarouter b": `/a metarouter b`, "/a;b": "/a;b", `/a\b`: `/a\b`} {
		got := new(Source).TrustCommand(path)
		if got != "metarouter trust "+commandline.Quote(want) || strings.Contains(got, "\n") {
			t.Errorf("%q: %q", path, got)
		}
	}
}

// The command or the file of a reference to a secret is shown, wherever it stands.
func TestDescribeShowsReferences(t *testing.T) {
	got := describe(textOf(t, `{"mcpServers": {"a": {
  "url": "https://h.example/mcp?key=${cmd:curl evil}&other=secret",
  "headers": {"Authorization": "Bearer ${cmd:run ${X:-more} | awk '{print $1}'}literal", "Y": "${VAR:-${cmd:other}}", "Z": "${keyring:GH}", "O": "${op://v/i/f}", "F": "${file:a:-b}", "U": "${cmd:rm {",
    "V": "${op:-s3cret}s3cret${op://v", "W": "${file:a{b}s3cret}"}
}}}`))
	want := `  a
    url            "https://h.example/mcp?key=${cmd:curl evil}•••"
    headers.Authorization "Bearer ${cmd:run ${X:-more} | awk '{print $1}'}•••"
    headers.Y      •••${cmd:other}•••
    headers.Z      ${keyring:GH}
    headers.O      ${op://v/i/f}
    headers.F      ${file:a:-b}
    headers.U      "${cmd:rm {"
    headers.V      ${op:-•••}•••${op://v
    headers.W      ${file:a{b}•••
`
	expect.Equal(t, got, want)
}

// The cluster, and who may use which servers, is shown; passwords are not.
func TestDescribeShowsCluster(t *testing.T) {
	got := describe(textOf(t, `{"metarouter": {"cluster": {"urls": "nats://u:hunter2@a,tls://hunter2@b:1", "name": "${secret}", "creds": "my.creds",
  "tls": {"key": "k.pem"}, "share": ["token"], "use": ["*@secret"], "trusted": ["UA"]}}, "mcpServers": {"a": {"command": "x", "service": "s"}}}`))
	want := `  metarouter:
    cluster.urls   nats://•••@a,tls://•••@b:1
    cluster.name   ${secret}
    cluster.creds  my.creds
    cluster.tls.key k.pem
    cluster.share  token
    cluster.use    *@secret
    cluster.trusted UA
  a
    command        x
    service        s
`
	expect.Equal(t, got, want)
	if got := describe(textOf(t, `{"metarouter": {"cluster": {"urls": ["nats://u:hunter2@a", "tls://hunter2@b:1"]}}}`)); strings.Contains(got, "hunter2") {
		t.Errorf("got\n%s", got)
	}
}

// Who is let in is shown, whatever the claims and subjects are named; secrets are not.
func TestDescribeShowsWhoIsLetIn(t *testing.T) {
	got := describe(textOf(t, `{"metarouter": {"audit": false, "http": {"publicUrl": "https://r.example", "clientCA": "ca.pem",
  "oauth": {"issuers": [{"url": "https://id.example?key=hunter2", "jwksUrl": "https://u:hunter2@k.example", "clientSecret": "hunter2${S}", "clientId": "me",
    "profiles": {"secret.token=x": "work", "a.clientSecret": "ci"}, "admins": ["password=1"], "scopeMap": {"auth.clientSecret": ["mcp:admin"]}}]},
  "certificates": {"CN=secret": "ci", "O=token": {"name": "b", "role": "admin"}, "CN=a.clientSecret": "ci"}}}}`))
	want := `  metarouter:
    audit          false
    http.publicUrl https://r.example
    http.clientCA  ca.pem
    http.oauth.issuers[0].url https://id.example?key=•••
    http.oauth.issuers[0].jwksUrl https://•••@k.example
    http.oauth.issuers[0].clientSecret •••${S}
    http.oauth.issuers[0].clientId me
    http.oauth.issuers[0].profiles.secret.token=x work
    http.oauth.issuers[0].profiles.a.clientSecret ci
    http.oauth.issuers[0].admins password=1
    http.oauth.issuers[0].scopeMap.auth.clientSecret mcp:admin
    http.certificates.CN=secret ci
    http.certificates.O=token.name b
    http.certificates.O=token.role admin
    http.certificates.CN=a.clientSecret ci
`
	expect.Equal(t, got, want)
}
