package logins

import (
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"unicode"
)

// maxURL is the longest URL, in bytes, that is handed to a program.
const maxURL = 16 << 10

// noBrowser returns why a person here can't see a browser that this machine opens, as the end of a
// sentence; "" if nothing speaks against it. getenv is the function of package os, system is GOOS.
//
// The variable BROWSER names the browser's program. Editors set it where they open pages on
// another machine, so it counts more than an SSH session does.
func noBrowser(getenv func(string) string, system string) string {
	switch {
	case getenv("BROWSER") != "":
		return ""
	case getenv("SSH_CONNECTION") != "" || getenv("SSH_TTY") != "":
		return "you are logged in to this machine over SSH"
	case system != "windows" && system != "darwin" && getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "":
		return "this machine has no display"
	}
	return ""
}

// openBrowser opens a page. It does not wait for the program that opens it, which may be the browser itself and
// goes on when this one ends.
func openBrowser(page string, getenv func(string) string) error {
	if err := check(page); err != nil {
		return err
	}
	words := opener()
	if program := getenv("BROWSER"); program != "" {
		words = []string{program}
	}
	cmd := exec.Command(words[0], append(words[1:], page)...)
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// check returns an error for a page that no program may get: its URL is no web page, or could be
// taken for something else than a URL.
func check(page string) error {
	u, err := url.Parse(page)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil:
		return errors.New("the address of the page is not that of a web page")
	case len(page) > maxURL:
		return fmt.Errorf("the address of the page is longer than %d bytes", maxURL)
	case strings.ContainsFunc(page, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune("\"'`\\<>", r)
	}):
		return errors.New("the address of the page has characters that no URL has")
	}
	return nil
}
