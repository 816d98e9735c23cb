package index

import "hash/maphash"

// A WordSet recognizes most terms that are not among its words, by their hashes: the words
// themselves are all over the memory. The zero value is empty.
type WordSet struct {
	bits [setSize / 64]uint64
}

const setSize = 1 << 12

// seed is the seed of all hashes of this process.
var seed = maphash.MakeSeed()

func hashWord(word string) uint16 { return uint16(maphash.String(seed, word)) }

// Add adds a word.
func (s *WordSet) Add(word string) {
	h := hashWord(word) % setSize
	s.bits[h/64] |= 1 << (h % 64)
}

// MayHave reports whether the term may be one of the words; if not, it is not.
func (s *WordSet) MayHave(t *Term) bool {
	h := t.hash % setSize
	return s.bits[h/64]&(1<<(h%64)) != 0
}
