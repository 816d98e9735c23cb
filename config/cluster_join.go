package config

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/glob"
)

// JoinCluster has the router join a cluster by the URLs of NATS, with commas between them, instead
// of those of the files. All else is as the files say. The error says what is wrong with the URLs,
// or that a mistake in the files leaves the router in no cluster; then r stays as it was.
func (r *Router) JoinCluster(urls string) error {
	all, err := splitURLs(urls)
	if err == nil {
		err = checkURLs(all)
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
func (c *Cluster) Secrets() (all []string) {
	if c == nil {
		return nil
	}
	for _, s := range c.URLs {
		u, err := url.Parse(s)
		if err != nil {
			continue // it was checked
		}
		if password, ok := u.User.Password(); ok {
			all = append(all, password)
		} else if token := u.User.Username(); token != "" {
			all = append(all, token) // NATS takes a user without a password for a token
		}
	}
	return all
}

// checkCluster sets the cluster of the router, and reports what only all files together show.
func checkCluster(d *decoder, c *Config) {
	t := &d.cluster
	if t.at.source.path == "" {
		return
	}
	d.source, d.name = t.at.source, "" // no server
	if tls := t.value.TLS; (tls.Cert == "") != (tls.Key == "") {
		t.broken = true
		d.mistake(t.at.offset, `"cert" and "key" in "tls" of "cluster" need each other, so the router joins no cluster; write both or neither`)
	} else if tls.Cert != "" {
		d.claim(t.at.offset, claim{kind: claimCluster, text: "cert", path: tls.Cert, keyPath: tls.Key})
	}
	in := t.value // the decoder does not stay in memory
	switch {
	case t.broken:
		c.Router.clusterBroken = true
		return // what else is wrong does not matter yet
	case len(t.value.URLs) == 0:
		d.warn(t.at.offset, `"cluster" has no "urls", so the router joins no cluster, unless 'metarouter serve --cluster URL' names one; write "urls": ["nats://hub:4222"], with the address of your NATS server`)
		c.Router.clusterWithoutURLs = &in
	default:
		c.Router.Cluster = &in
	}
	d.warnOfCluster(*c)
}

// warnOfCluster reports what has no effect, and what lets more in than was probably meant.
func (d *decoder) warnOfCluster(c Config) {
	t := &d.cluster
	if len(t.value.Share)+len(t.value.Use) > 0 && len(t.value.Trusted) == 0 {
		d.warn(t.at.offset, `"share" and "use" of "cluster" have no effect without "trusted", which names the nodes to share with; run 'metarouter nodes' to see them, and 'metarouter nodes trust KEY --write' to add one`)
	}
	for _, s := range t.urls {
		u, err := url.Parse(s.text)
		if err == nil && (u.Scheme == "nats" || u.Scheme == "ws") && !isLoopback(u.Hostname()) && t.value.TLS == (ClusterTLS{}) {
			d.warn(s.offset, `the connection to the NATS server %s is not encrypted, so others on the way can read calls and results; write %q if the server has TLS, or "tls": {"ca": "ca.pem"} for a certificate of your own`, u.Host, encrypted(u.Scheme)+"://"+u.Host)
		}
	}
	d.source = t.listsAt
	names, size, cost := make([]string, len(c.Servers)), 0, 0
	for i, s := range c.Servers {
		names[i], size = s.Name, size+len(s.Name)
	}
	for _, s := range t.share {
		if cost += len(s.text) * size; cost > maxCompared {
			break
		}
		switch p, err := glob.Parse(s.text); {
		case strings.Trim(s.text, "*") == "":
			d.warn(s.offset, `"share" with %q shares every server, also those that are added later; write the names of those that other machines may use`, s.text)
		case err == nil && !slices.ContainsFunc(names, p.Match):
			d.warn(s.offset, `"share" has the server %q, which does not exist; %s`, s.text, serverAdvice(s.text, names))
		}
	}
	for _, s := range t.use {
		if !strings.ContainsAny(s.text, `@*?[`) {
			d.warn(s.offset, `"use" has %q, which is no name of a server of another node; write %q, or %q for that of a node`, s.text, s.text+"@*", s.text+"@NODE")
		}
	}
}

// encrypted returns the scheme with TLS.
func encrypted(scheme string) string {
	if scheme == "ws" {
		return "wss"
	}
	return "tls"
}
