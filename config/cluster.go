package config

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

// A Cluster says how routers on several machines share their servers.
type Cluster struct {
	URLs  []string // of NATS, such as "nats://hub:4222"; at least one
	Name  string   `key:"name"`  // of the cluster; default "metarouter"
	Node  string   `key:"node"`  // the name of this node; "" is the host's name
	Creds string   `key:"creds"` // absolute path of a NATS credentials file, or of an nkey seed; "" for no file
	TLS   struct { // PEM files for connections to NATS, absolute paths; "" for no file
		CA   string `key:"ca"`
		Cert string `key:"cert"`
		Key  string `key:"key"`
	} `key:"tls"`
	Share   []string `key:"share"`   // globs of names of servers that other nodes may use; empty shares nothing
	Use     []string `key:"use"`     // globs of names such as "gpu@box" of servers that this router uses; empty uses nothing
	Trusted []string `key:"trusted"` // public keys of the nodes that may call and announce
}

// A clusterText is the "cluster" of all files.
type clusterText struct {
	value Cluster
	urls  []int // places of the last "urls", one for each
}

const (
	atCluster      = atRouter + ".cluster"
	defaultCluster = "metarouter"
)

// clusterName matches names of clusters and nodes. They are parts of NATS's subjects.
var clusterName = lazy.Regexp(`^[a-z0-9-]{1,32}$`)

// clusterField returns the function that decodes "cluster" on top of the "cluster" of earlier files.
func clusterField(d *decoder) func(hujson.ObjectMember) {
	c := &d.cluster
	c.value.Name = cmp.Or(c.value.Name, defaultCluster)
	return objectField(d, d.keys(&c.value, fields{"urls": set(d, &c.value.URLs, func(v hujson.Value) ([]string, error) { return readURLs(d, v) })}))
}

// readURLs reads an array of URLs of NATS, or one string with commas between them.
func readURLs(d *decoder, v hujson.Value) ([]string, error) {
	d.cluster.urls = nil
	elements := []hujson.Value{v}
	if a, ok := v.Value.(*hujson.Array); ok {
		elements = a.Elements
	} else if v.Value.Kind() != '"' {
		return nil, errors.New(`must be an array of URLs of NATS; write ["nats://hub:4222"]`)
	}
	var all []string
	for i, e := range elements {
		path := fmt.Sprintf("[%d]", i)
		if v.Value.Kind() == '"' {
			path = ""
		}
		s, err := d.text(nodeAt(d.level), e)
		if err == nil && d.env.asWritten && strings.Contains(s, "${") {
			all, d.cluster.urls = append(all, s), append(d.cluster.urls, e.StartOffset)
			continue
		}
		var some []string
		if err == nil {
			some, err = urls.NATS(s)
		}
		if err != nil {
			return nil, misfitAt(e.StartOffset, path, err)
		}
		for range some {
			d.cluster.urls = append(d.cluster.urls, e.StartOffset)
		}
		all = append(all, some...)
	}
	return all, urls.CheckNATS(all)
}

// JoinCluster has the router join a cluster by URLs of NATS, with commas between them, instead of the
// URLs in the files. All else is as the files say. After an error, which names the mistake in the URLs, r stays
// as it was.
func (r *Router) JoinCluster(text string) error {
	all, err := urls.NATS(text)
	if err == nil {
		err = urls.CheckNATS(all)
	}
	if err != nil {
		return err
	}
	c := Cluster{Name: defaultCluster}
	if r.Cluster != nil {
		c = *r.Cluster
	} else if r.clusterWithoutURLs != nil {
		c = *r.clusterWithoutURLs
	}
	c.URLs = all
	r.Cluster, r.clusterWithoutURLs = &c, nil
	return nil
}

// checkCluster sets the cluster of the router, and reports mistakes that only all files together show.
func checkCluster(d *decoder, c *Config) {
	t := &d.cluster
	if d.last[atCluster].source.path == "" {
		return
	}
	at := d.at(atCluster)
	if tls := t.value.TLS; (tls.Cert == "") != (tls.Key == "") {
		d.mistake(at, `"cert" and "key" in "tls" of "cluster" need each other; write both or neither`)
	}
	examineCluster(d, t.value)
	d.at(atCluster)
	in := t.value // the decoder does not stay in memory
	if len(in.URLs) == 0 {
		d.warn(at, `"cluster" has no "urls", so the router joins no cluster, unless 'metarouter serve --cluster URL' names one; write "urls": ["nats://hub:4222"], with the address of your NATS server`)
		c.Router.clusterWithoutURLs = &in
	} else {
		c.Router.Cluster = &in
	}
	warnOfCluster(d, *c)
}

// examineCluster looks at the files for connections to NATS.
func examineCluster(d *decoder, c Cluster) {
	for _, f := range []struct {
		key, path string
		check     func() error
	}{
		{"creds", c.Creds, func() error { _, err := safefile.Read(c.Creds, maxPEM); return err }},
		{"tls.ca", c.TLS.CA, func() error { return checkAuthorities(c.TLS.CA) }},
		{"tls.cert", c.TLS.Cert, func() error { return checkPair(c.TLS.Cert, c.TLS.Key) }},
	} {
		if f.path != "" {
			d.examineFile(d.at(atCluster+"."+f.key), f.check, message("the router can't join its cluster with this %q", keys.Last(f.key)), "correct the path, or the file")
		}
	}
}

// warnOfCluster reports keys that have no effect, and keys that share more than was probably meant.
func warnOfCluster(d *decoder, c Config) {
	t, at := &d.cluster, d.at(atCluster)
	if len(t.value.Share)+len(t.value.Use) > 0 && len(t.value.Trusted) == 0 {
		d.warn(at, `"share" and "use" of "cluster" have no effect without "trusted", which names the nodes to share with; run 'metarouter nodes' to see them, and 'metarouter nodes trust KEY --write' to add one`)
	}
	d.at(atCluster + ".urls")
	for i, offset := range t.urls {
		if host, better, ok := urls.UnencryptedNATS(t.value.URLs[i]); ok && t.value.TLS == (Cluster{}.TLS) {
			d.warn(offset, `the connection to the NATS server %s is not encrypted, so others on the way can read calls and results; write %q if the server has TLS, or "tls": {"ca": "ca.pem"} for a certificate of your own`, host, better)
		}
	}
	names := namesOf(c.Servers)
	d.at(atCluster + ".share")
	for i, e := range d.last[atCluster+".share"].elements() {
		text := t.value.Share[i]
		if strings.Trim(text, "*") == "" {
			d.warn(e.StartOffset, `"share" with %q shares every server, also those that are added later; write the names of those that other machines may use`, text)
		} else if fix, unmatched := names.unmatched(text); unmatched {
			d.warn(e.StartOffset, `"share" has the server %q, which does not exist; %s`, text, fix)
		}
	}
}
