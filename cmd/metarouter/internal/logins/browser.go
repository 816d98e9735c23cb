package logins

import (
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"slices"
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
	all := openers(page, getenv)
	i := slices.IndexFunc(all, func(words []string) bool { _, err := exec.LookPath(words[0]); return err == nil })
	if i < 0 {
		return fmt.Errorf("no program that opens pages is on the PATH, such as %s", all[len(all)-1][0])
	}
	cmd := exec.Command(all[i][0], all[i][1:]...)
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

// named returns the command lines of the variable BROWSER: programs with colons between them, in
// which %s stands for the page.
func named(page string, getenv func(string) string) (all [][]string) {
	for command := range strings.SplitSeq(getenv("BROWSER"), ":") {
		words := strings.Fields(command)
		if len(words) == 0 {
			continue
		}
		if !strings.Contains(command, "%s") {
			words = append(words, page)
		}
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "%s", page)
		}
		all = append(all, words)
	}
	return all
}
