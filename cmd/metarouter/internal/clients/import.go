package clients

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
)

// An Imported is our file with a client's servers, and says which of them were added. The names are
// as in our file.
type Imported struct {
	Data      []byte
	Added     []string
	Same      []string // our configuration had them already
	Conflicts []string // our configuration has another server of that name, which stays
	Routers   []string // they start metarouter itself
	Login     []string // imported ones that may need a login by OAuth
	Notes     []string // sentences for the user
	Secrets   bool     // an imported entry may have a secret

	Hashes map[string]string // our names of the client's entries that our configuration has now, by hash
}

// Import puts the servers of the sources into our file, which is at path and has the
// content data; data is empty if the file does not exist yet. Where ours has another server of the same name, that stays.
func Import(sources []Source, path string, data []byte, ours Ours) (Imported, error) {
	all, notes, err := find(sources)
	if err != nil {
		return Imported{}, err
	}
	d, _, keys, err := openOurs(path, data)
	if err != nil {
		return Imported{}, err
	}
	if _, err := d.serversAt(keys); err != nil {
		return Imported{}, err
	}
	m := merge{doc: d, keys: keys, ours: ours, done: Imported{Data: data, Notes: notes, Hashes: make(map[string]string)}}
	for _, e := range all {
		theirs, err := e.convert(path)
		if err != nil {
			m.done.Notes = append(m.done.Notes, err.Error()+"; it is left out")
			continue
		}
		m.put(theirs, theirs.server.Self || e.name == EntryName && theirs.server.URL != "")
	}
	if len(m.done.Added) > 0 {
		m.done.Data = d.bytes()
	}
	return m.done, nil
}

// A merge is the import of entries into our file.
type merge struct {
	doc  *document
	keys []string // from the root of doc to the servers
	ours Ours
	done Imported
}

// put adds an entry of the client to our file, or says why not. router says that the entry starts metarouter.
func (m *merge) put(theirs converted, router bool) {
	same, isSame := m.ours.same(theirs.server)
	done := &m.done
	switch {
	case router:
		done.Routers = append(done.Routers, theirs.name)
	case slices.Contains(done.Added, theirs.name):
		done.Notes = append(done.Notes, fmt.Sprintf("%q is left out: another imported server has that name", theirs.name))
	case isSame:
		done.Hashes[theirs.hash] = same.Name
		if same.Name != theirs.name {
			theirs.name += " (as " + same.Name + ")"
		}
		done.Same = append(done.Same, theirs.name)
	case m.ours.has(m.ours.Imported[theirs.hash]): // and edited since
		done.Same = append(done.Same, theirs.name)
	case isSetting(m.keys, theirs.name):
		done.Notes = append(done.Notes, fmt.Sprintf("%q is left out: your file has its servers without \"mcpServers\" around them, so none can have that name", theirs.name))
	case m.ours.has(theirs.name) || member(m.doc.at(m.keys...), theirs.name) != nil:
		done.Conflicts = append(done.Conflicts, theirs.name)
	default:
		_ = m.doc.putServers(m.keys, field{theirs.name, theirs.value.Value}) // there is an object, or room for one
		done.Added = append(done.Added, theirs.name)
		done.Hashes[theirs.hash] = theirs.name
		if MayNeedLogin(theirs.server) {
			done.Login = append(done.Login, theirs.name)
		}
		done.Notes = append(done.Notes, theirs.notes...)
		done.Secrets = done.Secrets || Hides(m.doc.path, []byte(written(theirs.value)))
	}
}

// hosted lists hosts whose servers log their users in with a browser. Some take a token
// too.
var hosted = []string{
	"api.githubcopilot.com", "bindings.mcp.cloudflare.com", "mcp.asana.com", "mcp.atlassian.com", "mcp.canva.com", "mcp.figma.com",
	"mcp.intercom.com", "mcp.linear.app", "mcp.monday.com", "mcp.notion.com", "mcp.paypal.com", "mcp.sentry.dev", "mcp.squareup.com",
	"mcp.stripe.com", "mcp.vercel.com", "mcp.webflow.com", "observability.mcp.cloudflare.com",
}

// MayNeedLogin reports whether a server may need a login by OAuth, as far as that can be
// seen in its entry: it has "oauth", or its host is known, and it sends no header of its own.
func MayNeedLogin(s config.Server) bool {
	u, err := url.Parse(s.URL)
	return err == nil && s.URL != "" && len(s.Headers) == 0 && (s.OAuth != nil || slices.Contains(hosted, strings.ToLower(u.Hostname())))
}
