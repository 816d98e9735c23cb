package catalog

import (
	"bytes"
	"encoding/gob"
	"strings"

	"github.com/mcp-metarouter/metarouter/registry"
)

// A storedOffer is an offer as a file has it, in gob: with hundreds of servers, to read JSON would be
// most of the start.
type storedOffer struct {
	Server string
	Offer  registry.Offer
}

// encode returns the offer of a server as it is stored.
func encode(server string, o registry.Offer) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(storedOffer{server, o})
	return b.Bytes(), err
}

// decode is the inverse of encode.
func decode(data []byte) (server string, o registry.Offer, err error) {
	var stored storedOffer
	if err = gob.NewDecoder(bytes.NewReader(data)).Decode(&stored); err != nil {
		return "", registry.Offer{}, err
	}
	o = stored.Offer
	for i := range o.Tools {
		t := &o.Tools[i]
		if at := bytes.Index(t.Definition, t.InputSchema); at >= 0 && len(t.InputSchema) > 0 { // it takes no memory of its own
			end := at + len(t.InputSchema)
			t.InputSchema = t.Definition[at:end:end]
		}
	}
	for i := range o.Templates {
		t := &o.Templates[i]
		t.URI = strings.TrimPrefix(t.ID, stored.Server+":") // which an older version has stored under another name
	}
	return stored.Server, o, nil
}
