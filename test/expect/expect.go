// Package expect compares what a test got with what it wants. A difference fails the test, which goes on. The last arguments are
// a format and its arguments, which say what was compared; without them, the line of the test says it.
package expect

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// OK ends the test unless err is nil.
func OK(t testing.TB, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(what(about) + err.Error())
	}
}

// Error wants an error with the part in its text.
func Error(t testing.TB, err error, part string, about ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		differ(t, err, "… "+part+" …", about)
	}
}

// Equal compares with ==.
func Equal[T comparable](t testing.TB, got, want T, about ...any) {
	t.Helper()
	if got != want {
		differ(t, got, want, about)
	}
}

// List compares with [slices.Equal].
func List[T comparable](t testing.TB, got, want []T, about ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		differ(t, got, want, about)
	}
}

// Deep compares with [reflect.DeepEqual].
func Deep(t testing.TB, got, want any, about ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		differ(t, got, want, about)
	}
}

// Contains wants got to have the part.
func Contains(t testing.TB, got, part string, about ...any) {
	t.Helper()
	if !strings.Contains(got, part) {
		differ(t, got, "… "+part+" …", about)
	}
}

func differ(t testing.TB, got, want any, about []any) {
	t.Helper()
	t.Errorf("%sgot  %s\nwant %s", what(about), text(got), text(want))
}

func what(about []any) string {
	if len(about) == 0 {
		return ""
	}
	return fmt.Sprintf(about[0].(string), about[1:]...) + ": "
}

// text quotes a string of one line, in which spaces would be hard to see.
func text(v any) string {
	if s, ok := v.(string); ok && !strings.Contains(s, "\n") {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%+v", v)
}
