package script

import (
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
)

// A budget bounds the bytes that all scripts of an engine have together.
type budget struct {
	used, max atomic.Int64
}

// take takes n bytes, and reports whether they were left.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.max.Load() {
		b.used.Add(-n)
		return false
	}
	return true
}

// A memory is an interpreter's memory. It lies outside of Go's heap: a page exists once it is written to.
type memory struct {
	budget   *budget
	reserved []byte
	used     int64
	full     bool // a growth failed
}

// newMemory reserves max bytes and takes size of them from a budget.
func newMemory(b *budget, size, max int64) (*memory, error) {
	reserved, err := reserve(int((max + 0xffff) &^ 0xffff))
	if err != nil {
		return nil, err
	}
	m := &memory{budget: b, reserved: reserved}
	if m.Reallocate(uint64(size)) == nil {
		m.Free()
		return nil, errNoMemory
	}
	return m, nil
}

// Allocate implements [experimental.MemoryAllocator].
func (m *memory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate implements [experimental.LinearMemory].
func (m *memory) Reallocate(size uint64) []byte {
	n := int64(size)
	if grown := n - m.used; grown > 0 {
		if n > int64(len(m.reserved)) || !m.budget.take(grown) {
			m.full = true
			return nil
		}
		if commit(m.reserved, int(m.used), int(n)) != nil {
			m.budget.used.Add(-grown)
			m.full = true
			return nil
		}
		m.used = n
	}
	return m.reserved[:size]
}

// Free implements [experimental.LinearMemory].
func (m *memory) Free() {
	if m.reserved != nil {
		release(m.reserved)
		m.budget.used.Add(-m.used)
		m.reserved = nil
	}
}
