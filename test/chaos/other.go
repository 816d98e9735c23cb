//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "chaos runs on Linux only: it finds and measures processes in /proc")
	os.Exit(2)
}
