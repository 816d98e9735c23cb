package console

import (
	"bufio"
	"context"
	"os"
	"strings"

	"golang.org/x/sys/windows"
)

// ReadLine drops earlier input of the terminal, calls question, and returns the line that the person
// types then, if [Console.CanAsk]. If ctx ends first, it returns ctx's cause, and a goroutine goes on reading: the
// program must end then.
func ReadLine(ctx context.Context, c *Console, question func()) (string, error) {
	f := c.Streams[0].(*os.File)
	_ = windows.FlushConsoleInputBuffer(windows.Handle(f.Fd())) // if it fails, an older line counts
	question()
	var line string
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		line, err = bufio.NewReader(f).ReadString('\n')
	}()
	select {
	case <-read:
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
