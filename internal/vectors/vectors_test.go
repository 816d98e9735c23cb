package vectors

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func small(t *testing.T) *Model {
	t.Helper()
	m, err := Decode(string(Encode([]Word{
		{"cat", []float32{1, 0, 0, 0, 0.5}, 1},
		{"dog", []float32{0.9, 0.1, 0, 0, 0.5}, 1},
		{"rain", []float32{0, 0, -2, 1, 0}, 1},
		{"the", []float32{0, 0.001, 0, 0, 0}, 0.001},
	}, Shared{Fields: []float32{2, 1}, Length: 1})))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMeaning(t *testing.T) {
	m := small(t)
	tool := func(words ...string) Vector {
		b := m.NewBag()
		for i, w := range words {
			counts := make([]uint8, len(words))
			counts[i] = 1
			b.Add(w, counts)
		}
		return b.Vector()
	}
	task := m.Task([]string{"the", "cat", "unknown"})
	near, far := task.Dot(tool("dog")), task.Dot(tool("rain"))
	if near < 0.95 || near > 1 || far > 0.1 {
		t.Errorf("cat is %v from dog and %v from rain", near, far)
	}
	if both := task.Dot(tool("dog", "rain")); both >= near || both <= far {
		t.Errorf("cat is %v from a tool of both", both)
	}
	for _, v := range []Vector{task, tool("cat", "rain"), tool("", "rain")} {
		if length := v.Dot(v); math.Abs(float64(length)-1) > 1e-5 {
			t.Errorf("the length of %v is %v", v, length)
		}
	}
	for _, v := range []Vector{m.Task(nil), m.Task([]string{"unknown"}), tool("unknown"), tool("", "", "cat")} {
		if v != nil || v.Dot(task) != 0 {
			t.Errorf("nothing known has the meaning %v", v)
		}
	}
}

// A bag is empty once its vector was made.
func TestBagAgain(t *testing.T) {
	m := small(t)
	again := m.NewBag()
	for _, word := range []string{"rain", "cat", "unknown", "dog"} {
		once := m.NewBag()
		once.Add(word, []uint8{1, 2})
		again.Add(word, []uint8{1, 2})
		if got, want := again.Vector(), once.Vector(); !slices.Equal(got, want) {
			t.Errorf("the vector of %s is %v after other words, %v alone", word, got, want)
		}
	}
}

// A matrix turns the vectors of tasks, and only these, and their length is the model's.
func TestTurn(t *testing.T) {
	m, err := Decode(string(Encode([]Word{{"a", []float32{1, 0}, 1}, {"b", []float32{0, 1}, 1}},
		Shared{Fields: []float32{1}, Turn: []float32{0, 1, 1, 0}, Length: 1.5})))
	if err != nil {
		t.Fatal(err)
	}
	tool := m.NewBag()
	tool.Add("a", []uint8{1})
	v := tool.Vector()
	if a, b := m.Task([]string{"a"}).Dot(v), m.Task([]string{"b"}).Dot(v); a != 0 || math.Abs(float64(b)-1.5) > 1e-5 {
		t.Errorf("the tool a has %v with the task a and %v with b; want 0 and 1.5", a, b)
	}
}

func TestEmbedded(t *testing.T) {
	m := Embedded()
	words := strings.Split(m.list, "\n")
	if len(words) < 10_000 || len(m.fields) != 5 {
		t.Fatalf("%d words, %d fields", len(words), len(m.fields))
	}
	for i, word := range words {
		if number, ok := m.find(word); !ok || number != i {
			t.Fatalf("%q, word %d, is found as word %d: %v", word, i, number, ok)
		}
		for _, other := range []string{word + "\x00", word + "q", word[1:] + "zz"} {
			if _, is := slices.BinarySearch(words, other); m.Knows(other) != is {
				t.Fatalf("that the model has %q is %v, want %v", other, !is, is)
			}
		}
	}
	if m.Knows("") {
		t.Error("the model has an empty word")
	}
	related := m.Task([]string{"photo"}).Dot(m.Task([]string{"imag"}))
	other := m.Task([]string{"photo"}).Dot(m.Task([]string{"invoic"}))
	if related < other+0.2 {
		t.Errorf("a photo is %v from an image and %v from an invoice", related, other)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode([]Word{{"a", []float32{1, 2}, 1}, {"b", []float32{0, 0}, 1}}, Shared{Fields: []float32{1}, Turn: []float32{1, 2, 3, 4}, Length: 2}))
	f.Add(Encode(nil, Shared{}))
	f.Add([]byte(magic + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(string(b))
		if err != nil {
			return
		}
		bag := m.NewBag()
		for w := range strings.SplitSeq(m.list, "\n") {
			bag.Add(w, []uint8{1})
			m.Task([]string{w})
		}
		bag.Vector()
	})
}

func BenchmarkDot(b *testing.B) {
	v, w := make(Vector, 100), make(Vector, 100)
	for b.Loop() {
		v.Dot(w)
	}
}
