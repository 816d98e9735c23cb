package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/glob"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

// JoinCluster has the router join a cluster by the URLs of NATS, with commas between them, instead
// of those of the files. All else is as the files say. The error says what is wrong with the URLs,
// or that a mistake in the files leaves the router in no cluster; then r stays as it was.
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

// Secrets returns the passwords and tokens in the URLs.
func (c *Cluster) Secrets() []string {
	if c == nil {
		return nil
	}
	return urls.NATSSecrets(c.URLs)
}

// checkCluster sets the cluster of the router, and reports what only all files together show.
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
		d.claim(at, claim{kind: claimCluster, text: "cert", path: tls.Cert, keyPath: tls.Key})
	}
	in := t.value // the decoder does not stay in memory
	switch {
	case t.broken:
		c.Router.clusterBroken = true
		return // what else is wrong does not matter yet
	case len(t.value.URLs) == 0:
		d.warn(at, `"cluster" has no "urls", so the router joins no cluster, unless 'metarouter serve --cluster URL' names one; write "urls": ["nats://hub:4222"], with the address of your NATS server`)
		c.Router.clusterWithoutURLs = &in
	default:
		c.Router.Cluster = &in
	}
	clusterDecoder{d}.warnOf(*c)
}

// warnOf reports what has no effect, and what lets more in than was probably meant.
func (d clusterDecoder) warnOf(c Config) {
	t, at := &d.cluster, d.at(atCluster)
	if len(t.value.Share)+len(t.value.Use) > 0 && len(t.value.Trusted) == 0 {
		d.warn(at, `"share" and "use" of "cluster" have no effect without "trusted", which names the nodes to share with; run 'metarouter nodes' to see them, and 'metarouter nodes trust KEY --write' to add one`)
	}
	d.at(atCluster + ".urls")
	for i, offset := range t.urls {
		if host, better, ok := urls.UnencryptedNATS(t.value.URLs[i]); ok && t.value.TLS == (ClusterTLS{}) {
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
