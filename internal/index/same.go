package index

import (
	"hash/maphash"
	"math/bits"
	"strconv"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// maxSameDepth is how deep two schemas are compared.
const maxSameDepth = 64

// seed is that of all hashes of this process.
var seed = maphash.MakeSeed()

// sameTool returns a key that tools of equal name and input schema have in common. The
// order of a schema's members, white space and the form of its numbers do not matter.
func sameTool(t *registry.NormalizedTool) uint64 {
	return maphash.String(seed, t.Name) ^ bits.RotateLeft64(hashValue(t.InputSchema, 0), 1)
}

// hashValue returns the hash of a JSON value. Those of an object's members are added, so
// that their order does not matter. What is nested too deep counts as it is written.
func hashValue(b []byte, depth int) uint64 {
	sum := uint64(0)
	switch {
	case depth == maxSameDepth:
		return maphash.Bytes(seed, b)
	case wire.IsObject(b):
		_ = wire.Members(b, func(key string, value []byte) bool { // the registry has valid schemas
			sum += pair(maphash.String(seed, key), hashValue(value, depth+1))
			return true
		})
		return pair(sum, '{')
	case wire.IsArray(b):
		_ = wire.Elements(b, func(value []byte) bool {
			sum = pair(sum, hashValue(value, depth+1))
			return true
		})
		return pair(sum, '[')
	}
	if text, ok := wire.String(b); ok {
		return pair(maphash.String(seed, text), '"')
	}
	if x, err := strconv.ParseFloat(string(b), 64); err == nil {
		return pair(maphash.Comparable(seed, x), '0')
	}
	return maphash.Bytes(seed, b) // true, false, null
}

// pair returns the hash of two hashes in this order.
func pair(a, b uint64) uint64 { return maphash.Comparable(seed, [2]uint64{a, b}) }
