package expect

import (
	"fmt"
	"testing"
)

// A recorder keeps the messages of a test.
type recorder struct {
	testing.TB
	said string
}

func (*recorder) Helper()                          {}
func (r *recorder) Errorf(format string, a ...any) { r.said += fmt.Sprintf(format, a...) }
func (r *recorder) Fatal(a ...any)                 { r.said += fmt.Sprint(a...) }

func TestExpect(t *testing.T) {
	for want, run := range map[string]func(t testing.TB){
		"file 1: EOF":                    func(t testing.TB) { OK(t, fmt.Errorf("EOF"), "file %d", 1) },
		"got  EOF\nwant \"… reset …\"":   func(t testing.TB) { Error(t, fmt.Errorf("EOF"), "reset") },
		"tools: got  1\nwant 2":          func(t testing.TB) { Equal(t, 1, 2, "tools") },
		"got  \"a \"\nwant \"a\"":        func(t testing.TB) { Equal(t, "a ", "a") },
		"3 of x: got  [1]\nwant []":      func(t testing.TB) { List(t, []int{1}, nil, "%d of %s", 3, "x") },
		"got  map[a:1]\nwant map[a:2]":   func(t testing.TB) { Deep(t, map[string]int{"a": 1}, map[string]int{"a": 2}) },
		"got  \"abc\"\nwant \"… abd …\"": func(t testing.TB) { Contains(t, "abc", "abd") },
	} {
		r := &recorder{TB: t}
		run(r)
		Equal(t, r.said, want)
	}
	r := &recorder{TB: t}
	OK(r, nil)
	Error(r, fmt.Errorf("read: EOF"), "EOF")
	Equal(r, 1, 1)
	List(r, []int{}, nil)
	Deep(r, []int{1}, []int{1})
	Contains(r, "abc", "b")
	Equal(t, r.said, "", "without a difference")
}
