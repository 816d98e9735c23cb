package console

import (
	"os"

	"golang.org/x/sys/windows"
)

// canDraw has the console understand escape sequences, and reports whether it does.
func canDraw(f *os.File, getenv func(string) string) bool {
	if getenv("TERM") == "dumb" {
		return false
	}
	var mode uint32
	console := windows.Handle(f.Fd())
	if windows.GetConsoleMode(console, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
