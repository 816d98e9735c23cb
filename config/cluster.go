package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/glob"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/nodekey"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

// A Cluster says how routers on several machines share their servers. After a mistake in a
// list, the list is empty; a mistake elsewhere leaves the router in no cluster.
type Cluster struct {
	URLs  []string // of NATS, such as "nats://hub:4222"; at least one
	Name  string   `key:"name,clusterName"` // of the cluster; default "metarouter"
	Node  string   `key:"node,clusterName"` // the name of this node; "" is the host's name
	Creds string   `key:"creds,creds"`      // absolute path of a NATS credentials file, or of an nkey seed; "" for no file
	TLS   struct { // PEM files for connections to NATS, absolute paths; "" for no file
		CA   string `key:"ca,ca"`
		Cert string `key:"cert,file"`
		Key  string `key:"key,file"`
	} `key:"tls"`
	Share   []string // globs of names of servers that other nodes may use; empty shares nothing
	Use     []string // globs of names such as "gpu@box" of servers that this router uses; empty uses nothing
	Trusted []string // public keys of the nodes that may call and announce, each once
}

// A clusterDecoder reads values of "cluster".
type clusterDecoder struct{ *decoder }

// A clusterText is the "cluster" of all files.
type clusterText struct {
	broken bool // by a mistake that leaves the router in no cluster
	value  Cluster
	urls   []int    // places of the last "urls", one for each
	keys   []string // of the last "trusted"
}

const (
	atCluster      = atRouter + ".cluster"
	defaultCluster = "metarouter"

	maxPath = 4096 // bytes
)

// clusterName matches names of clusters and nodes. They are parts of NATS's subjects.
var clusterName = lazy.Regexp(`^[a-z0-9-]{1,32}$`)

// clusterField returns the function that decodes "cluster" on top of the "cluster" of earlier files.
func clusterField(d *decoder) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		c, cluster := &d.cluster, clusterDecoder{d}
		c.value.Name = cmp.Or(c.value.Name, defaultCluster)
		v, before, tolerated := &c.value, d.mistakes, 0
		// list decodes a list that is empty after a mistake, which leaves the router in its cluster.
		list := func(to *[]string, field func(hujson.ObjectMember)) func(hujson.ObjectMember) {
			return func(m hujson.ObjectMember) {
				*to, c.keys = nil, nil
				before := d.mistakes
				field(m)
				tolerated += d.mistakes - before
			}
		}
		objectField(d, d.keys(v, fields{
			"urls":    set(d, &v.URLs, cluster.readURLs),
			"share":   list(&v.Share, d.to(&v.Share, "patterns")),
			"use":     list(&v.Use, d.to(&v.Use, "patterns")),
			"trusted": list(&v.Trusted, d.to(&v.Trusted, "nodeKey")),
		}))(m)
		if d.mistakes-tolerated > before {
			c.broken = true
			d.mistake(m.Name.StartOffset, `the router joins no cluster because of mistakes in "cluster"; correct them`)
		}
	}
}

// readURLs reads an array of URLs of NATS, or one string with commas between them.
func (d clusterDecoder) readURLs(v hujson.Value) ([]string, error) {
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
		s, err := d.bounded(maxValue)(e)
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

// word reads the name of a cluster or a node. The name of a node may be empty.
func (d clusterDecoder) word(v hujson.Value) (string, error) {
	s, err := d.bounded(maxValue)(v)
	if err == nil && !clusterName().MatchString(s) && !(d.env.asWritten && strings.Contains(s, "${")) && (s != "" || d.level != atCluster+".node") {
		err = errors.New(nodeAt(d.level).Says)
	}
	return s, err
}

// file returns a reader of the path of a file, which [Config.Examine] looks at unless kind is "file".
func (d clusterDecoder) file(kind string) reader[string] {
	return func(v hujson.Value) (string, error) {
		s, err := d.bounded(maxPath)(v)
		if err != nil || s == "" {
			return "", err
		}
		switch s = d.absolute(s); kind {
		case "ca":
			d.examine(v.StartOffset, severityError, atNATS(kind, s, func() error { return checkAuthorities(s) }))
		case "creds":
			d.examine(v.StartOffset, severityError, atNATS(kind, s, func() error { _, err := safefile.Read(s, maxPEM); return err }))
		}
		return s, nil
	}
}

// nodeKey reads the public key of a node. It reports one that is wrong, and leaves it out.
func (d clusterDecoder) nodeKey(v hujson.Value) (string, error) {
	key, err := keys.Text(v)
	if err == nil {
		err = nodekey.Check(key)
	}
	switch {
	case err != nil:
		d.mistake(v.StartOffset, `this key of "trusted" trusts no node: it %v`, err)
	case slices.Contains(d.cluster.keys, key):
		d.warn(v.StartOffset, `this key of "trusted" is here twice; remove one`)
	default:
		d.cluster.keys = append(d.cluster.keys, key)
		return key, nil
	}
	return "", errLeftOut
}

// service reads the name of a service. After a mistake the server is a service of its own.
func (d *checker) service(v hujson.Value) (string, error) {
	s, err := keys.Text(v)
	if n := nodeAt(d.level); err != nil || n.Fits(s) != nil {
		d.mistake(d.placeOf(v), `"service" %s`, n.Says)
		return "", nil
	}
	return s, nil
}

// JoinCluster has the router join a cluster by URLs of NATS, with commas between them, instead of the
// URLs in the files. All else is as the files say. The error names the mistake in the URLs, or says
// that a mistake in the files leaves the router in no cluster; then r stays as it was.
func (r *Router) JoinCluster(text string) error {
	all, err := urls.NATS(text)
	if err == nil {
		err = urls.CheckNATS(all)
	}
	switch {
	case err != nil:
		return err
	case r.clusterBroken:
		return errors.New(`needs a "cluster" without mistakes in the configuration; run 'metarouter check', and correct them`)
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
		t.broken = true
		d.mistake(at, `"cert" and "key" in "tls" of "cluster" need each other, so the router joins no cluster; write both or neither`)
	} else if tls.Cert != "" {
		d.examine(at, severityError, atNATS("cert", tls.Cert, func() error { return checkPair(tls.Cert, tls.Key) }))
	}
	in := t.value // the decoder does not stay in memory
	switch {
	case t.broken:
		c.Router.clusterBroken = true
		return // other mistakes do not matter yet
	case len(t.value.URLs) == 0:
		d.warn(at, `"cluster" has no "urls", so the router joins no cluster, unless 'metarouter serve --cluster URL' names one; write "urls": ["nats://hub:4222"], with the address of your NATS server`)
		c.Router.clusterWithoutURLs = &in
	default:
		c.Router.Cluster = &in
	}
	clusterDecoder{d}.warnOf(*c)
}

// warnOf reports keys that have no effect, and keys that share more than was probably meant.
func (d clusterDecoder) warnOf(c Config) {
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
	names, size := namesOf(c.Servers)
	cost := 0
	d.at(atCluster + ".share")
	for i, text := range t.value.Share {
		if cost += len(text) * size; cost > maxCompared {
			break
		}
		at := d.last[atCluster+".share"].elements()[i].StartOffset
		switch p, err := glob.Parse(text); {
		case strings.Trim(text, "*") == "":
			d.warn(at, `"share" with %q shares every server, also those that are added later; write the names of those that other machines may use`, text)
		case err == nil && !slices.ContainsFunc(names, p.Match):
			d.warn(at, `"share" has the server %q, which does not exist; %s`, text, advice(text, names, noServer))
		}
	}
	d.at(atCluster + ".use")
	for i, text := range t.value.Use {
		if !strings.ContainsAny(text, `@*?[`) {
			d.warn(d.last[atCluster+".use"].elements()[i].StartOffset, `"use" has %q, which is no name of a server of another node; write %q, or %q for that of a node`, text, text+"@*", text+"@NODE")
		}
	}
}
