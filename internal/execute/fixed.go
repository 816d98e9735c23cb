package execute

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// refusals returns a sentence for each argument, of a JSON object, that a profile fixes and a client may therefore not send. Many servers ignore the
// case of names, so a name that differs only in case counts as the same one unless the tool declares it as another one. Nothing can be fixed in
// arguments that are not valid.
func refusals(t *registry.NormalizedTool, args json.RawMessage) (faults []string) {
	fixed := wire.Keys(t.Fixed)
	if len(fixed) == 0 {
		return nil
	}
	if !wire.Valid(args) {
		return []string{"arguments: they are not valid JSON"}
	}
	for key := range wire.All(args) {
		if len(faults) == maxRefusals {
			break
		}
		if slices.ContainsFunc(fixed, func(name string) bool {
			return key == name || strings.EqualFold(key, name) && wire.Member(wire.Member(t.ArgumentSchema(), "properties"), key) == nil
		}) {
			faults = append(faults, "arguments: "+strconv.Quote(schema.NewKeys(t.Keys).Name(key))+" is fixed by the profile; leave it out")
		}
	}
	return faults
}

const maxRefusals = 10 // faults that are named

// withFixed returns the arguments, a JSON object, with the arguments that a profile fixes at their end, where
// they win also on servers that take the last of several members with one name.
func withFixed(t *registry.NormalizedTool, args json.RawMessage) json.RawMessage {
	if t.Fixed == nil || !wire.Valid(args) {
		return args // refusals has a fault for invalid arguments
	}
	for key, value := range wire.All(t.Fixed) {
		args = wire.AddMember(wire.DeleteMember(args, key), key, value)
	}
	return args
}
