package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

const (
	keyA = "UA6NDBPC7STOTBZ36WTDDTWYMWVJIMUNJTVB2WQP7PGBKLWW3H4DRX3X"
	keyB = "UBWYQBM6PNVQ4XOVEFFAIIJVCVQD2B4PASQRUIFD72QMTWIUR65CGOZW"
)

func TestCluster(t *testing.T) {
	hub := []string{"nats://127.0.0.1:4222"}
	const at = `"urls": ["nats://127.0.0.1:4222"]`
	with := func(edit func(*Cluster)) *Cluster {
		c := &Cluster{URLs: hub, Name: "metarouter"}
		if edit != nil {
			edit(c)
		}
		return c
	}
	for _, tt := range []struct {
		cluster string
		want    *Cluster
		says    string // the begin of a problem; "" if there is no problem
	}{
		{at, with(nil), ""},
		{`"urls": "nats://127.0.0.1:4222"`, with(nil), ""},
		{at + `, "name": "office", "node": "gpu-1", "creds": "me.creds", "tls": {"ca": "ca.pem", "cert": "/c.pem", "key": "k.pem"}, "share": ["a", "fi*"], "use": ["*@box"], "trusted": ["` + keyB + `", "` + keyA + `"]`,
			with(func(c *Cluster) {
				c.Name, c.Node, c.Creds = "office", "gpu-1", "/project/me.creds"
				c.TLS.CA, c.TLS.Cert, c.TLS.Key = "/project/ca.pem", "/c.pem", "/project/k.pem"
				c.Share, c.Use, c.Trusted = []string{"a", "fi*"}, []string{"*@box"}, []string{keyB, keyA}
			}), ""},
		{`"urls": "tls://u:${TOKEN}@${HOST}, wss://x"`, nil, `error: "urls" must be either URLs with ws: and wss:`},
		{`"urls": "tls://u:${TOKEN}@${HOST}, tls://[::1]:1"`, with(func(c *Cluster) { c.URLs = []string{"tls://u:sk-secret@example.com", "tls://[::1]:1"} }), ""},
		{`"urls": "wss://h/path"`, with(func(c *Cluster) { c.URLs = []string{"wss://h/path"} }), ""},
		{at + `, "creds": "", "node": "", "tls": {}, "share": [], "use": [], "trusted": []`, with(nil), ""},

		// Mistakes, which refuse the file.
		{``, nil, `warning: "cluster" has no "urls", so the router joins no cluster, unless 'metarouter serve --cluster URL' names one; write "urls": ["nats://hub:4222"]`},
		{`"urls": []`, nil, `error: "urls" names no NATS server; write ["nats://hub:4222"]`},
		{`"urls": ""`, nil, `error: "urls" names no NATS server`},
		{`"urls": 1`, nil, `error: "urls" must be an array of URLs of NATS`},
		{`"urls": ["nats://h", "hub:4222"]`, nil, `error: "urls[1]" must be a whole URL of NATS`},
		{`"urls": ["http://h"]`, nil, `error: "urls[0]" must be a whole URL of NATS`},
		{`"urls": ["nats://h:0"]`, nil, `error: "urls[0]" must have a port`},
		{`"urls": ["nats://h:99999"]`, nil, `error: "urls[0]" must have a port`},
		{`"urls": ["nats://h/x"]`, nil, `error: "urls[0]" must be a URL without a path`},
		{`"urls": ["nats://h?x=1"]`, nil, `error: "urls[0]" must be a URL without a path`},
		{`"urls": ["nats://u:sk-secret@h:x"]`, nil, `error: "urls[0]" must be a whole URL`},
		{`"urls": ["nats://${NONE}"]`, nil, `error: "urls[0]" has no value: the variable NONE is not set`},
		{`"urls": ["nats://${keyring:X}@h"]`, nil, `error: "urls[0]" has no value: a reference to a secret`},
		{at + `, "name": "Office"`, nil, `error: "name" must be the name of the cluster`},
		{at + `, "name": ""`, nil, `error: "name" must be the name of the cluster`},
		{at + `, "node": "a.b"`, nil, `error: "node" must be the name of this node`},
		{at + `, "creds": "${NONE}"`, nil, `error: "creds" has no value`},
		{at + `, "tls": {"cert": "c"}`, nil, `error: "cert" and "key" in "tls" of "cluster" need each other`},
		{at + `, "tls": {"ca": 1}`, nil, `error: "ca" must be a string`},
		{at + `, "tls": {"crt": "c"}`, nil, `error: the key "crt" is not known; did you mean "cert"?`},
		{at + `, "shard": 1`, nil, `error: the key "shard" is not known; did you mean "share"?`},
		{at + `, "cred": "c"`, nil, `error: the key "cred" is not known; did you mean "creds"?`},
		{at + `, ` + at, nil, `error: "urls" is here twice`},
		{at + `, "share": "a"`, nil, `error: "share" must be an array of strings`},
		{at + `, "share": ["a", "[x"]`, nil, `error: "share[1]" must be a name or a pattern`},
		{at + `, "share": ["a "]`, nil, `error: "share[0]" must be a name or a pattern without spaces around it`},
		{at + `, "use": [1]`, nil, `error: "use[0]" must be a string`},
		{at + `, "trusted": "` + keyA + `"`, nil, `error: "trusted" must be an array; write`},
		{at + `, "trusted": ["` + keyA + `", "` + strings.ToLower(keyB) + `"]`, nil, `error: "trusted[1]" is not the public key of a node; write the key that 'metarouter nodes key' prints on that node`},
		{at + `, "trusted": [1]`, nil, `error: "trusted[0]" must be a string; put it in quotes`},

		// Values that are probably not intended.
		{`"urls": ["nats://u:sk-secret@h:4222"]`, with(func(c *Cluster) { c.URLs = []string{"nats://u:sk-secret@h:4222"} }), `warning: the connection to the NATS server h:4222 is not encrypted, so others on the way can read calls and results; write "tls://h:4222"`},
		{`"urls": ["nats://h"], "tls": {"ca": "c"}`, with(func(c *Cluster) { c.URLs, c.TLS.CA = []string{"nats://h"}, "/project/c" }), ""},
		{at + `, "share": ["a"]`, with(func(c *Cluster) { c.Share = []string{"a"} }), `warning: "share" and "use" of "cluster" have no effect without "trusted"`},
		{at + `, "share": ["*"], "trusted": ["` + keyA + `"]`, with(func(c *Cluster) { c.Share, c.Trusted = []string{"*"}, []string{keyA} }), `warning: "share" with "*" shares every server`},
		{at + `, "share": ["file"], "trusted": ["` + keyA + `"]`, with(func(c *Cluster) { c.Share, c.Trusted = []string{"file"}, []string{keyA} }), `warning: "share" has the server "file", which does not exist; did you mean "files"?`},
		{at + `, "later": 1`, with(nil), `warning: the key "later" is not known and has no effect`},
	} {
		c := anyText(t, `{"mcpServers": {"a": {"command": "x"}, "files": {"command": "x"}}, "metarouter": {"cluster": {`+tt.cluster+`}}}`)
		got := saidOf(c)
		if !reflect.DeepEqual(c.Router.Cluster, tt.want) || !strings.Contains("\n"+got, "\n"+tt.says) || tt.says == "" && got != "" || strings.Contains(got, "sk-secret") {
			t.Errorf("%s:\ngot  %+v\nwant %+v\nproblems\n%s", tt.cluster, c.Router.Cluster, tt.want, got)
		}
	}
	for _, text := range []string{`[]`, `"nats://h"`, `true`, `null`} {
		if c := anyText(t, `{"metarouter": {"cluster": `+text+`}}`); !isRefused(c) || !strings.HasPrefix(saidOf(c), `error: "cluster" must `) {
			t.Errorf("%s: %+v, %s", text, c.Router.Cluster, saidOf(c))
		}
	}
}

// checkJoined checks the promises of a cluster that hold for every file.
func checkJoined(t *testing.T, c *Cluster) {
	if c == nil {
		return
	}
	if all, err := urls.NATS(strings.Join(c.URLs, ",")); err != nil || !reflect.DeepEqual(all, c.URLs) || urls.CheckNATS(all) != nil {
		t.Errorf("the URLs %q: %v", c.URLs, err)
	}
	if !clusterName().MatchString(c.Name) || c.Node != "" && !clusterName().MatchString(c.Node) {
		t.Errorf("the names %q and %q", c.Name, c.Node)
	}
	expect.Equal(t, c.TLS.Cert == "", c.TLS.Key == "", "TLS with %+v", c.TLS)
	for _, file := range []string{c.Creds, c.TLS.CA, c.TLS.Cert, c.TLS.Key} {
		if file != "" && !filepath.IsAbs(file) {
			t.Errorf("the file %q", file)
		}
	}
	for _, key := range c.Trusted {
		expect.OK(t, clusternode.CheckKey(key), "%q is trusted", key)
	}
	for _, text := range append(slices.Clone(c.Share), c.Use...) {
		expect.OK(t, checkPattern(text), "the pattern %q", text)
	}
}

// Later files win, key by key.
func TestClusterOfSeveralFiles(t *testing.T) {
	read := func(first, second string) Config {
		c, err := load([]string{"/a", "/b"}, fakeWorld(map[string]string{"/a": `{"metarouter": {"cluster": ` + first + `}}`, "/b": `{"metarouter": {"cluster": ` + second + `}}`}, nil))
		expect.OK(t, err)
		return c
	}
	c := read(`{"urls": "nats://[::1]", "name": "office", "trusted": ["`+keyA+`"], "use": ["*@a"], "tls": {"cert": "c", "key": "k"}}`, `{"urls": "tls://b", "trusted": ["`+keyB+`"], "tls": {"ca": "x"}}`)
	want := &Cluster{URLs: []string{"tls://b"}, Name: "office", Use: []string{"*@a"}, Trusted: []string{keyB}}
	want.TLS.CA, want.TLS.Cert, want.TLS.Key = "/x", "/c", "/k"
	if !reflect.DeepEqual(c.Router.Cluster, want) || len(c.Problems) > 0 {
		t.Errorf("got %+v\nwant %+v\n%s", c.Router.Cluster, want, saidOf(c))
	}
}

// A text that is not expanded has no mistakes that its variables may hide.
func TestClusterAsWritten(t *testing.T) {
	c, err := ReadText("/x", []byte(`{"metarouter": {"cluster": {"urls": ["${A}", "wss://x"], "name": "${B}", "node": "${C}", "creds": "${D}"}}}`))
	if err != nil || len(c.Problems) > 0 {
		t.Errorf("%v %v", err, c.Problems)
	}
}

func TestJoinCluster(t *testing.T) {
	router := func(cluster string) Router {
		return loadText(t, `{"metarouter": {"cluster": {`+cluster+`}}}`).Router
	}
	for _, tt := range []struct {
		r    Router
		urls string
		want *Cluster
		says string
	}{
		{Router{}, "nats://a,tls://b", &Cluster{URLs: []string{"nats://a", "tls://b"}, Name: "metarouter"}, ""},
		{router(`"name": "office", "trusted": ["` + keyA + `"]`), "nats://a", &Cluster{URLs: []string{"nats://a"}, Name: "office", Trusted: []string{keyA}}, ""},
		{router(`"urls": "tls://old", "node": "n"`), "nats://a", &Cluster{URLs: []string{"nats://a"}, Name: "metarouter", Node: "n"}, ""},
		{Router{}, "", nil, "names no NATS server"},
		{Router{}, "hub:4222", nil, "must be a whole URL of NATS"},
	} {
		before := tt.r.Cluster
		err := tt.r.JoinCluster(tt.urls)
		if !reflect.DeepEqual(tt.r.Cluster, tt.want) || (err == nil) != (tt.says == "") || err != nil && !strings.HasPrefix(err.Error(), tt.says) {
			t.Errorf("%q: %+v, %v", tt.urls, tt.r.Cluster, err)
		}
		if before != nil && before.URLs[0] != "tls://old" {
			t.Error("the value of the files was modified")
		}
	}
}

func TestService(t *testing.T) {
	for said, want := range map[string]string{`"web-search"`: "web-search", `""`: "", `1`: "", `"a b"`: "", `"-x"`: ""} {
		c := loadText(t, `{"mcpServers": {"a": {"command": "x", "service": `+said+`}}}`)
		if s := c.Servers[0]; s.Service != want || (s.Misconfigured != "") != (want == "" && said != `""`) {
			t.Errorf("%s: %q, %v", said, s.Service, c.Problems)
		}
	}
}

// Examine looks at the files for connections to NATS.
func TestExamineCluster(t *testing.T) {
	folder := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(folder, "ca.pem"), []byte("x"), 0o600))
	c, err := readExpanded(filepath.Join(folder, "mcp.json"), []byte(`{"metarouter": {"cluster": {"urls": "tls://a", "creds": "none", "tls": {"ca": "ca.pem", "cert": "c", "key": "k"}}}}`))
	if err != nil || len(c.Problems) > 0 {
		t.Fatal(err, c.Problems)
	}
	got := saidOf(c.Examine())
	for _, want := range []string{`with this "creds": no such file`, `with this "ca": it holds no certificate in PEM`, `with this "cert": no such file`} {
		expect.Contains(t, got, want)
	}
}
