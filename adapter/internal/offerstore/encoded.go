package offerstore

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"

	"github.com/mcp-metarouter/metarouter/registry"
)

// A storedOffer is an offer as a file has it, in gob: with hundreds of servers, to read JSON would be
// most of the start.
type storedOffer struct {
	Server string
	Offer  registry.Offer
	Hints  []byte // JSON of storedHints
}

// The storedHints are the hints of an offer. Gob does not distinguish a hint that is false from no hint.
type storedHints struct {
	Tools     []registry.Hints
	Confirmed map[string]registry.Hints
}

// encode returns the offer of a server as it is stored.
func encode(server string, o registry.Offer) ([]byte, error) {
	hints := storedHints{make([]registry.Hints, len(o.Tools)), o.Confirmed}
	for i := range o.Tools {
		hints.Tools[i] = o.Tools[i].Hints
	}
	text, err := json.Marshal(hints)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = gob.NewEncoder(&b).Encode(storedOffer{server, o, text})
	return b.Bytes(), err
}

// decode is the inverse of encode.
func decode(data []byte) (server string, o registry.Offer, err error) {
	var stored storedOffer
	var hints storedHints
	if err = gob.NewDecoder(bytes.NewReader(data)).Decode(&stored); err == nil {
		err = json.Unmarshal(stored.Hints, &hints)
	}
	if o = stored.Offer; err == nil && len(hints.Tools) != len(o.Tools) {
		err = errors.New("the hints are not those of the tools")
	}
	if err != nil {
		return "", registry.Offer{}, err
	}
	o.Confirmed = hints.Confirmed
	for i := range o.Tools {
		t := &o.Tools[i]
		t.Hints = hints.Tools[i]
		if at := bytes.Index(t.Definition, t.InputSchema); at >= 0 && len(t.InputSchema) > 0 { // it takes no memory of its own
			end := at + len(t.InputSchema)
			t.InputSchema = t.Definition[at:end:end]
		}
	}
	for name, definition := range o.LastSeen {
		if len(definition) == 0 {
			o.LastSeen[name] = nil
		}
	}
	return stored.Server, o, nil
}
