package conversation

import "sync"

// A Quota bounds how many things there are, and their bytes, of one owner and of all owners.
type Quota struct {
	each, all amount

	mu    sync.Mutex // guards the fields below
	used  amount
	owned map[string]amount // of each owner that has any
}

type amount struct{ count, bytes int }

func (a amount) plus(count, bytes int) amount { return amount{a.count + count, a.bytes + bytes} }

func (a amount) fits(most amount) bool { return a.count <= most.count && a.bytes <= most.bytes }

// NewQuota returns a quota of so many things of each owner and of all owners together, with so many bytes.
func NewQuota(each, all, eachBytes, allBytes int) *Quota {
	return &Quota{each: amount{each, eachBytes}, all: amount{all, allBytes}, owned: make(map[string]amount)}
}

// Take counts one thing more of the owner. It reports false if there are too many, or too many bytes.
func (q *Quota) Take(owner string, bytes int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	used, owned := q.used.plus(1, bytes), q.owned[owner].plus(1, bytes)
	if !used.fits(q.all) || !owned.fits(q.each) {
		return false
	}
	q.used, q.owned[owner] = used, owned
	return true
}

// Release counts one thing less of the owner, after a Take that reported true.
func (q *Quota) Release(owner string, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used = q.used.plus(-1, -bytes)
	if q.owned[owner] = q.owned[owner].plus(-1, -bytes); q.owned[owner] == (amount{}) {
		delete(q.owned, owner)
	}
}
