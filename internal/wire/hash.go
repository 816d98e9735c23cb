package wire

import (
	"hash/maphash"
	"strconv"
)

// maxHashDepth is how deep a value is hashed.
const maxHashDepth = 64

// Hash returns the hash of a JSON value. The order of an object's members, white space and the form
// of numbers do not matter. A value nested too deep counts as it is written.
func Hash(seed maphash.Seed, b []byte) uint64 { return hasher{seed}.value(b, 0) }

type hasher struct{ maphash.Seed }

// value returns the hash of a value. The hashes of an object's members are added, so that their order
// does not matter.
func (h hasher) value(b []byte, depth int) uint64 {
	sum := uint64(0)
	switch {
	case depth == maxHashDepth:
		return maphash.Bytes(h.Seed, b)
	case IsObject(b):
		_ = Members(b, func(key string, value []byte) bool { // of a valid value
			sum += h.pair(maphash.String(h.Seed, key), h.value(value, depth+1))
			return true
		})
		return h.pair(sum, '{')
	case IsArray(b):
		_ = Elements(b, func(value []byte) bool {
			sum = h.pair(sum, h.value(value, depth+1))
			return true
		})
		return h.pair(sum, '[')
	}
	if text, ok := String(b); ok {
		return h.pair(maphash.String(h.Seed, text), '"')
	}
	if x, err := strconv.ParseFloat(string(b), 64); err == nil {
		return h.pair(maphash.Comparable(h.Seed, x), '0')
	}
	return maphash.Bytes(h.Seed, b) // true, false, null
}

// pair returns the hash of two hashes in this order.
func (h hasher) pair(a, b uint64) uint64 { return maphash.Comparable(h.Seed, [2]uint64{a, b}) }
