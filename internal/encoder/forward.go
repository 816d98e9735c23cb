package encoder

import (
	"math"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
)

// Encode returns the vector of a text, which has unit length. Of a long text it is that of the
// begin.
func (m *Model) Encode(text string, role Role) vectors.Vector {
	s := m.free.Get().(*scratch)
	defer m.free.Put(s)
	s.tokens = m.tokens(text, s.tokens[:0], min(m.places, mostTokens))
	m.start(s, role)
	for i := range m.stack {
		m.stack[i].forward(s, len(s.tokens), m.heads)
	}
	clear(s.sum)
	for at := range len(s.tokens) * m.width {
		s.sum[at%m.width] += s.x[at]
	}
	v := make(vectors.Vector, m.dim)
	if copy(v, s.sum); m.out.cols > 0 {
		s.quantize(s.sum)
		m.out.apply(v, s)
	}
	length := float32(math.Sqrt(float64(v.Dot(v)))) + 1e-9
	for i := range v {
		v[i] /= length
	}
	return v
}

// start writes to s.x the sums of piece, position and role.
func (m *Model) start(s *scratch, role Role) {
	m.role.row(int(role), s.sum)
	for t, piece := range s.tokens {
		x := s.x[t*m.width : (t+1)*m.width]
		if m.widen.cols > 0 {
			m.word.row(int(piece), s.narrow)
			s.quantize(s.narrow)
			m.widen.apply(x, s)
		} else {
			m.word.row(int(piece), x)
		}
		m.place.row(t, s.joined)
		for i := range x {
			x[i] += s.joined[i] + s.sum[i]
		}
		m.first.apply(x)
	}
}

// forward replaces the n rows of s.x.
func (l *layer) forward(s *scratch, n, heads int) {
	width := l.query.cols
	for t := range n {
		at := t * width
		s.quantize(s.x[at : at+width])
		l.query.apply(s.q[at:at+width], s)
		l.key.apply(s.k[at:at+width], s)
		l.value.apply(s.v[at:at+width], s)
	}
	for t := range n {
		at := t * width
		x := s.x[at : at+width]
		s.attend(t, n, width, heads)
		s.quantize(s.sum)
		l.join.apply(s.joined, s)
		l.attended.add(x, s.joined)
		s.quantize(x)
		l.up.apply(s.up, s)
		for i, u := range s.up {
			s.up[i] = gelu(u)
		}
		s.quantize(s.up)
		l.down.apply(s.joined, s)
		l.fed.add(x, s.joined)
	}
}

// attend writes to s.sum what the token t takes from all tokens.
func (s *scratch) attend(t, n, width, heads int) {
	size := width / heads
	by := float32(1 / math.Sqrt(float64(size)))
	clear(s.sum)
	for h := range heads {
		at := h * size
		q := vectors.Vector(s.q[t*width+at : t*width+at+size])
		most := float32(math.Inf(-1))
		for u := range n {
			s.share[u] = by * q.Dot(s.k[u*width+at:u*width+at+size])
			most = max(most, s.share[u])
		}
		all := float32(0)
		for u := range n {
			s.share[u] = exp(s.share[u] - most)
			all += s.share[u]
		}
		to := s.sum[at : at+size]
		for u := range n {
			share := s.share[u] / all
			for i, x := range s.v[u*width+at : u*width+at+size][:len(to)] {
				to[i] += float32(share * x)
			}
		}
	}
}

// add adds y to x and normalizes x.
func (n *normal) add(x, y []float32) {
	for i := range x {
		x[i] += y[i]
	}
	n.apply(x)
}

func (n *normal) apply(x []float32) {
	mean, square := float32(0), float32(0)
	for _, v := range x {
		mean += v
	}
	mean /= float32(len(x))
	for _, v := range x {
		square += float32((v - mean) * (v - mean))
	}
	by := 1 / float32(math.Sqrt(float64(square/float32(len(x)))+1e-12))
	gain, shift := n.gain[:len(x)], n.shift[:len(x)]
	for i, v := range x {
		x[i] = float32((v-mean)*by*gain[i]) + shift[i]
	}
}

// A scratch is what a text needs while it is encoded.
type scratch struct {
	tokens          []int32
	x, q, k, v      []float32 // by token
	sum, joined, up []float32 // of one token
	narrow, share   []float32
	quantized       []int16
	unit            float32 // the value of 1 in quantized
	whole           []int32 // products of quantized
}

func newScratch(s sizes) *scratch {
	floats := func(n int) []float32 { return make([]float32, n) }
	wide, all := max(s.width, s.inner, s.narrow, s.dim), mostTokens*s.width
	return &scratch{
		x: floats(all), q: floats(all), k: floats(all), v: floats(all),
		sum: floats(s.width), joined: floats(s.width), up: floats(s.inner), narrow: floats(s.narrow), share: floats(mostTokens),
		quantized: make([]int16, wide), whole: make([]int32, wide),
	}
}
