package console

import (
	"bufio"
	"context"
	"os"
	"strings"

	"golang.org/x/sys/windows"
)

// readLine is [Console.ReadLine] for the terminal f. If ctx ends first, a goroutine goes on reading.
func readLine(ctx context.Context, f *os.File, question func()) (string, error) {
	_ = windows.FlushConsoleInputBuffer(windows.Handle(f.Fd())) // if it fails, an older line counts
	question()
	var line string
	var err error
	select {
	case <-begin(func() { line, err = bufio.NewReader(f).ReadString('\n') }):
		return strings.TrimRight(line, "\r\n"), err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// isPlain has the console understand escape sequences, and reports whether it understands nothing but lines.
func isPlain(f *os.File, getenv func(string) string) bool {
	var mode uint32
	console := windows.Handle(f.Fd())
	return getenv("TERM") == "dumb" || windows.GetConsoleMode(console, &mode) != nil ||
		windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) != nil
}
