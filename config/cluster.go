package config

import (
	"cmp"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

// A Cluster says how routers on several machines share their servers.
type Cluster struct {
	URLs  []string `key:"urls,one"` // of NATS, such as "nats://hub:4222"; at least one
	Name  string   `key:"name"`     // of the cluster; default "metarouter"
	Node  string   `key:"node"`     // the name of this node; "" is the host's name
	Creds string   `key:"creds"`    // absolute path of a NATS credentials file, or of an nkey seed; "" for no file
	TLS   struct { // PEM files for connections to NATS, absolute paths; "" for no file
		CA   string `key:"ca"`
		Cert string `key:"cert"`
		Key  string `key:"key"`
	} `key:"tls"`
	Share   []string `key:"share"`   // globs of names of servers that other nodes may use; empty shares nothing
	Use     []string `key:"use"`     // globs of names such as "gpu@box" of servers that this router uses; empty uses nothing
	Trusted []string `key:"trusted"` // public keys of the nodes that may call and announce
}

const atCluster = atRouter + ".cluster"

// clusterName matches names of clusters and nodes. They are parts of NATS's subjects.
var clusterName = lazy.Regexp(`^[a-z0-9-]{1,32}$`)

// decode decodes on top of the value of earlier files.
func (c *Cluster) decode(d *decoder, at int, v hujson.Value) error {
	known := d.keys(c, nil)
	texts := known["urls"]
	known["urls"] = func(m hujson.ObjectMember) {
		before := d.mistakes
		if texts(m); d.mistakes > before {
			return
		}
		var all []string
		for _, text := range c.URLs {
			parts, err := urls.NATS(text)
			if err != nil { // it has variables that are not replaced yet
				parts = []string{text}
			}
			all = append(all, parts...)
		}
		if err := urls.CheckNATS(all); err != nil {
			d.mistake(m.Name.StartOffset, `"urls" %v`, err)
		}
		c.URLs = all
	}
	d.objectAt(at, v, known)
	return nil
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
	c := defaults[Cluster](atCluster)
	if read := cmp.Or(r.Cluster, r.clusterWithoutURLs); read != nil {
		c = *read
	}
	c.URLs = all
	r.Cluster, r.clusterWithoutURLs = &c, nil
	return nil
}

// checkCluster reports mistakes that only all files together show.
func checkCluster(d *decoder, c *Config) {
	in := c.Router.Cluster
	if in == nil {
		return
	}
	if at := d.at(atCluster); (in.TLS.Cert == "") != (in.TLS.Key == "") {
		d.mistake(at, `"cert" and "key" in "tls" of "cluster" need each other; write both or neither`)
	}
	examineCluster(d, *in)
	if _, ok := d.last[atCluster+".urls"]; !ok {
		d.warn(d.at(atCluster), `"cluster" has no "urls", so the router joins no cluster, unless 'metarouter serve --cluster URL' names one; write "urls": ["nats://hub:4222"], with the address of your NATS server`)
		c.Router.Cluster, c.Router.clusterWithoutURLs = nil, in
	}
	warnOfCluster(d, *in, c.Servers)
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
func warnOfCluster(d *decoder, c Cluster, servers []Server) {
	if at := d.at(atCluster); len(c.Share)+len(c.Use) > 0 && len(c.Trusted) == 0 {
		d.warn(at, `"share" and "use" of "cluster" have no effect without "trusted", which names the nodes to share with; run 'metarouter nodes' to see them, and 'metarouter nodes trust KEY --write' to add one`)
	}
	at := d.at(atCluster + ".urls")
	for _, u := range c.URLs {
		if host, better, ok := urls.UnencryptedNATS(u); ok && c.TLS == (Cluster{}.TLS) {
			d.warn(at, `the connection to the NATS server %s is not encrypted, so others on the way can read calls and results; write %q if the server has TLS, or "tls": {"ca": "ca.pem"} for a certificate of your own`, host, better)
		}
	}
	names := namesOf(servers)
	d.at(atCluster + ".share")
	for i, e := range d.last[atCluster+".share"].elements() {
		if len(c.Share) <= i {
			return // its mistake was reported
		}
		text := c.Share[i]
		if strings.Trim(text, "*") == "" {
			d.warn(e.StartOffset, `"share" with %q shares every server, also those that are added later; write the names of those that other machines may use`, text)
		} else if fix, unmatched := names.unmatched(text); unmatched {
			d.warn(e.StartOffset, `"share" has the server %q, which does not exist; %s`, text, fix)
		}
	}
}
