package index

import (
	_ "embed"
	"strings"
)

// english has the stems of English words and of common names, sorted, a line each.
//
//go:embed english.txt
var english string

// isEnglish reports whether a stem is of an English word. It searches the list where it is
// in the program's file: a map of it would take 2 MB.
func isEnglish(stem string) bool {
	list := english
	for list != "" {
		at := strings.LastIndexByte(list[:len(list)/2], '\n') + 1
		line, after, _ := strings.Cut(list[at:], "\n")
		switch {
		case line == stem:
			return true
		case stem < line:
			list = list[:at]
		default:
			list = after
		}
	}
	return false
}
