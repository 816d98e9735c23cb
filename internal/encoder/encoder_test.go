package encoder

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// sample reads the model that tools/train/encoder made at random.
func sample(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("testdata/model.bin")
	expect.OK(t, err)
	return string(b)
}

// TestEncode compares with the vectors that tools/train/encoder computed, before it made whole
// numbers of the weights.
func TestEncode(t *testing.T) {
	m, err := Decode(sample(t))
	expect.OK(t, err)
	b, err := os.ReadFile("testdata/vectors.jsonl")
	expect.OK(t, err)
	for line := range strings.Lines(string(b)) {
		var want struct {
			Role   Role
			Text   string
			Vector []float32
		}
		expect.OK(t, json.Unmarshal([]byte(line), &want))
		for i, x := range m.Encode(want.Text, want.Role) {
			if math.Abs(float64(x-want.Vector[i])) > 1e-2 {
				t.Errorf("%q: number %d is %v, want %v", want.Text, i, x, want.Vector[i])
			}
		}
	}
}

func TestPieces(t *testing.T) {
	pieces := []string{begin, end, unknown, "send", "mail", "##s", "##ing", "e", "-", "to", "tom", ".", "un", "##able", "cafe", "北", "京"}
	m := &Model{vocabulary: make(map[string]int32)}
	for i, piece := range pieces {
		m.vocabulary[piece] = int32(i)
	}
	for text, want := range map[string][]string{
		"":                                     {},
		"Send mails to Tom.":                   {"send", "mail", "##s", "to", "tom", "."},
		"E-Mail":                               {"e", "-", "mail"},
		"Café unable":                          {"cafe", "un", "##able"},
		"sending\tmailx mail":                  {"send", "##ing", unknown, "mail"},
		"北京":                                   {"北", "京"},
		"se\x00nd\u200b \xff":                  {"send"},
		strings.Repeat("s", 101) + " mail":     {unknown, "mail"},
		strings.Repeat("mail ", 13) + "unable": append(slices.Repeat([]string{"mail"}, 13), "un"),
	} {
		var got []string
		all, whole := m.tokens(text, nil, 14)
		for _, n := range all {
			got = append(got, pieces[n])
		}
		if !slices.Equal(got, want) || whole != (len(want) < 14) {
			t.Errorf("%q: %q, want %q; all of it: %v", text, got, want, whole)
		}
	}
}

func TestProducts(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, width := range []int{16, 48, 384, mostWidth} {
		x, rows := make([]int16, together*width), make([]byte, 5*width)
		for i := range x {
			x[i] = int16(random.IntN(2*span+1) - span)
		}
		for i := range rows {
			rows[i] = byte(int8(random.IntN(255) - 127))
		}
		for i := range min(width, width/mostWidth*width) { // the greatest sums
			x[i], rows[i] = span, 127
		}
		want := make([]int32, 5*together)
		for i := range want {
			for k := range width {
				want[i] += int32(x[i%together*width+k]) * int32(int8(rows[i/together*width+k]))
			}
		}
		for name, f := range map[string]func([]int32, string, []int16){"plain": productsPlain, "fast": products} {
			got := make([]int32, len(want))
			if f(got, string(rows), x); !slices.Equal(got, want) {
				t.Errorf("%s, %d: %v, want %v", name, width, got, want)
			}
		}
	}
}

// The sums have the same bits however they are computed.
func TestAddFour(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	some := func(n int) (all []float32) {
		for range n {
			all = append(all, random.Float32()-0.5)
		}
		return all
	}
	for _, n := range []int{4, 8, 32, 64} {
		rows, by, want := some(3*70+n), some(4), some(n)
		got := slices.Clone(want)
		addFour(got, rows, 70, by)
		if addFourPlain(want, rows, 70, by); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
}

// The vector of a part depends on the other parts, and that of the whole is the vector of the text.
func TestEncodeParts(t *testing.T) {
	m := Embedded()
	all := m.EncodeParts([]string{"open the bank, ", "sit on the bench"}, Task)
	if len(all) != 3 || all[0].Dot(m.Encode("open the bank, sit on the bench", Task)) < 0.999 {
		t.Fatalf("%d vectors, want those of the text and two parts", len(all))
	}
	for i, alone := range []string{"open the bank, ", "sit on the bench"} {
		if v := all[i+1]; v.Dot(v) < 0.99 || v.Dot(v) > 1.01 || v.Dot(m.Encode(alone, Task)) > 0.99 || v.Dot(all[2-i]) > 0.99 {
			t.Errorf("the vector of part %d has the length %v, and %v in common with that of the part alone", i, v.Dot(v), v.Dot(m.Encode(alone, Task)))
		}
	}
	all = m.EncodeParts([]string{"mail ", strings.Repeat("mail ", mostTokens), "mail"}, Task)
	expect.Equal(t, len(all), 2, "vectors of a long text, those of the text and of the part at its beginning")
}

func TestFunctions(t *testing.T) {
	for x := -12.0; x <= 12; x += 0.01 {
		some := []float32{float32(x)}
		gelu(some)
		if want := x / 2 * (1 + math.Erf(x/math.Sqrt2)); math.Abs(float64(some[0])-want) > 1e-5 {
			t.Errorf("gelu(%v) = %v, want %v", x, some[0], want)
		}
		if got, want := float64(exp(float32(-8*math.Abs(x)))), math.Exp(-8*math.Abs(x)); math.Abs(got-want) > 1e-6 {
			t.Errorf("exp(%v) = %v, want %v", -8*math.Abs(x), got, want)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	whole := sample(t)
	for n := 0; n < len(whole); n += 1 + n/8 {
		if _, err := Decode(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are a model", n, len(whole))
		}
	}
	if _, err := Decode(whole + "x"); err == nil {
		t.Error("a byte too much is no error")
	}
	for at := range 9 { // sizes
		for _, size := range []uint32{0, 7, 1 << 12, 1 << 31} {
			b := []byte(whole)
			binary.LittleEndian.PutUint32(b[len(magic)+4*at:], size)
			if _, err := Decode(string(b)); err == nil {
				t.Errorf("size %d may be %d", at, size)
			}
		}
	}
}

func FuzzEncode(f *testing.F) {
	m, err := Decode(sample(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("send mail\x00 \u0301 北京", true)
	f.Fuzz(func(t *testing.T, text string, tool bool) {
		role := Task
		if tool {
			role = Tool
		}
		v := m.Encode(text, role)
		if length := v.Dot(v); !(math.Abs(float64(length)-1) < 1e-3) {
			t.Fatalf("the square of the length is %v", length)
		}
	})
}

// BenchmarkEncode takes a model of the size that a search can afford.
func BenchmarkEncode(b *testing.B) {
	r := reader{left: strings.Repeat("\x00\x00\x00\x3a\x01\x01\x01\x01", 2<<20)}
	m := &Model{sizes: sizes{narrow: 192, width: 384, heads: 12, inner: 768, places: mostTokens, dim: 384}, vocabulary: map[string]int32{unknown: 2, end: 1}}
	m.word, m.widen.matrix, m.place, m.role, m.first = r.matrix(3, 192), r.matrix(384, 192), r.matrix(64, 384), r.matrix(2, 384), r.normal(384)
	for range 6 {
		m.stack = append(m.stack, r.layer(384, 768))
	}
	m.free.New = func() any { return newScratch(m.sizes) }
	for name, text := range map[string]string{"task": strings.Repeat("x ", 12), "tool": strings.Repeat("x ", 40)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Encode(text, Task)
			}
		})
	}
}

func TestMatrix(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	vector := func() Vector {
		v := make(Vector, 50)
		for i := range v {
			v[i] = random.Float32() - 0.5
		}
		return v
	}
	rows := []Vector{vector(), nil, vector(), vector(), vector(), make(Vector, 50)}
	vs := []Vector{vector(), vector(), vector(), vector(), rows[2]}
	for i, products := range NewMatrix(rows).Dot(vs) {
		for k, got := range products {
			if want := vs[i].Dot(rows[k]); math.Abs(float64(got-want)) > 0.02 {
				t.Errorf("vector %d, row %d: %v, want %v", i, k, got, want)
			}
		}
	}
	if all := NewMatrix(nil).Dot(vs); len(all) != len(vs) || len(all[0]) > 0 {
		t.Errorf("without rows: %v", all)
	}
}
