package encoder

import (
	"math"
)

// Encode returns the vector of a text, which has unit length. Of a long text the vector is made from
// the beginning.
func (m *Model) Encode(text string, role Role) Vector { return m.EncodeParts([]string{text}, role)[0] }

// EncodeParts returns the vectors of a text and of its parts, each in the context of the text (Günther et al., "Late
// Chunking", 2024). The last parts of a long text have none.
func (m *Model) EncodeParts(parts []string, role Role) []Vector {
	s := m.free.Get().(*scratch)
	defer m.free.Put(s)
	most := min(m.places, mostTokens) - 1
	s.tokens = append(s.tokens[:0], m.vocabulary[begin])
	var ends []int // of the parts, in tokens
	for _, part := range parts {
		var whole bool
		if s.tokens, whole = m.tokens(part, s.tokens, most); !whole {
			break
		}
		ends = append(ends, len(s.tokens))
	}
	s.tokens = append(s.tokens, m.vocabulary[end])
	n := len(s.tokens)
	m.start(s, role)
	for i := range m.stack {
		m.stack[i].forward(s, n, m.heads)
	}
	all, from := []Vector{m.mean(s, role, 0, n)}, 1
	for _, to := range ends {
		all, from = append(all, m.mean(s, role, from, to)), to
	}
	return all
}

// mean returns the vector of the tokens from one to another, of unit length; 0 for a task of which most are unknown, since
// all such tasks would be alike. Of a tool the name may be known.
func (m *Model) mean(s *scratch, role Role, from, to int) Vector {
	known := 0
	for _, piece := range s.tokens[from:to] {
		switch piece {
		case m.vocabulary[begin], m.vocabulary[end]:
		case m.vocabulary[unknown]:
			known--
		default:
			known++
		}
	}
	if role == Task && known < 0 {
		return make(Vector, m.dim)
	}
	mean := s.joined[:m.width]
	clear(mean)
	for at, x := range s.x[from*m.width : to*m.width] {
		mean[at%m.width] += x
	}
	v := make(Vector, m.dim)
	if copy(v, mean); m.out.cols > 0 {
		s.quantize(mean, 1)
		m.out.apply(v, s, 1)
	}
	length := float32(math.Sqrt(float64(v.Dot(v)))) + 1e-9
	for i := range v {
		v[i] /= length
	}
	return v
}

// start writes to s.x the sums of piece, position and role.
func (m *Model) start(s *scratch, role Role) {
	n := len(s.tokens)
	for t, piece := range s.tokens {
		m.word.row(int(piece), s.up[t*m.narrow:])
	}
	s.quantize(s.up[:n*m.narrow], n)
	m.widen.apply(s.x, s, n)
	roles, place := s.q[:m.width], s.k[:m.width]
	m.role.row(int(role), roles)
	for t := range n {
		x := s.x[t*m.width : (t+1)*m.width]
		m.place.row(t, place)
		for i := range x {
			x[i] += place[i] + roles[i]
		}
		m.first.apply(x)
	}
}

// forward replaces the n rows of s.x.
func (l *layer) forward(s *scratch, n, heads int) {
	width, inner := l.query.cols, l.down.cols
	x, up := s.x[:n*width], s.up[:n*inner]
	s.quantize(x, n)
	l.query.apply(s.q, s, n)
	l.key.apply(s.k, s, n)
	l.value.apply(s.v, s, n)
	for i, x := range s.k[:n*width] {
		s.keys[i%width*mostTokens+i/width] = x
	}
	for t := range n {
		s.attend(t, n, width, heads)
	}
	s.quantize(s.up[:n*width], n)
	l.join.apply(s.joined, s, n)
	l.attended.add(x, s.joined)
	s.quantize(x, n)
	l.up.apply(up, s, n)
	gelu(up)
	s.quantize(up, n)
	l.down.apply(s.joined, s, n)
	l.fed.add(x, s.joined)
}

// attend writes to the row t of s.up the weighted sum of all tokens for that token. It looks at several tokens
// at once; those after the n tokens have no share.
func (s *scratch) attend(t, n, width, heads int) {
	size := width / heads
	by := float32(1 / math.Sqrt(float64(size)))
	taken := s.up[t*width : (t+1)*width]
	clear(taken)
	for at := 0; at < width; at += size {
		clear(s.share)
		for i := at; i < at+size; i += 4 {
			addFour(s.share[:(n+7)&^7], s.keys[i*mostTokens:], mostTokens, s.q[t*width+i:])
		}
		most := float32(math.Inf(-1))
		for _, x := range s.share[:n] {
			most = max(most, x)
		}
		all := float32(0)
		for u, x := range s.share[:n] {
			s.share[u] = exp(by * (x - most))
			all += s.share[u]
		}
		for u := range s.share[:n] {
			s.share[u] /= all
		}
		clear(s.share[n:])
		for u := 0; u < n; u += 4 {
			addFour(taken[at:at+size], s.v[u*width+at:], width, s.share[u:])
		}
	}
}

// addFourPlain adds to to the beginnings of four rows, each times a number of by. A row begins width after the last.
func addFourPlain(to, rows []float32, width int, by []float32) {
	n, a, b, c, d := len(to), by[0], by[1], by[2], by[3]
	v0, v1, v2, v3 := rows[:n], rows[width:][:n], rows[2*width:][:n], rows[3*width:][:n]
	for i := range to { // the conversions prevent fused operations, which round differently
		to[i] += (float32(a*v0[i]) + float32(b*v1[i])) + (float32(c*v2[i]) + float32(d*v3[i]))
	}
}

// add adds y to x and normalizes the rows of x.
func (n *normal) add(x, y []float32) {
	for i := range x {
		x[i] += y[i]
	}
	for width := len(n.gain); len(x) > 0; x = x[width:] {
		n.apply(x[:width])
	}
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

// A scratch is the memory for one text while it is encoded: rows for its tokens.
type scratch struct {
	tokens             []int32
	x, q, k, v, joined []float32
	up                 []float32 // also weighted sums, and narrow pieces
	keys               []float32 // the columns of k
	share              []float32 // of one token
	quantized          []int16
	unit               []float32 // the values of 1 in the rows of quantized
	whole              []int32   // products of quantized
}

func newScratch(s sizes) *scratch {
	floats := func(n int) []float32 { return make([]float32, n) }
	widest := max(s.width, s.inner, s.narrow, s.dim)
	all := mostTokens * s.width
	return &scratch{
		x: floats(all), q: floats(all), k: floats(all), v: floats(all), joined: floats(all), keys: floats(all),
		up: floats(mostTokens * widest), share: floats(mostTokens),
		quantized: make([]int16, mostTokens*widest), unit: floats(mostTokens), whole: make([]int32, together*widest),
	}
}
