package config

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestStartsRouter(t *testing.T) {
	dir := t.TempDir()
	us := filepath.Join(dir, "router-under-test")
	write(t, us, "")
	write(t, filepath.Join(dir, "other"), "")
	if runtime.GOOS != "windows" {
		expect.OK(t, os.Symlink(us, filepath.Join(dir, "soft")))
	}
	expect.OK(t, os.Link(us, filepath.Join(dir, "hard")))
	env := environment{executable: us, lookPath: func(program string) (string, error) {
		if path := filepath.Join(dir, program); isThere(path) {
			return path, nil
		}
		return "", errors.New("not on PATH")
	}}
	for _, tt := range []struct {
		line string // split at |
		want bool
	}{
		{"metarouter|serve", true},
		{"metarouter", true},
		{"metarouter|--config|x|serve", true},
		{"metarouter|--config|builtin|serve", true},
		{"metarouter|call|x", true},
		{"/any/where/metarouter|serve", true},
		{`C:\bin\MetaRouter.exe|serve`, true},
		{"metarouter|builtin|files", false},
		{"metarouter|--log-level|debug|builtin|files|serve", false},
		{"soft|serve", runtime.GOOS != "windows"},
		{"hard|--http|:1|serve", true},
		{"hard|play-a-server", false},
		{dir + "/hard|serve", true},
		{"./hard|serve", true},
		{"other|serve", false},
		{"nowhere|serve", false},
		{"env|metarouter|serve", true},
		{"/usr/bin/env|-u|X|PATH=/bin:/usr/bin|metarouter|serve", true},
		{"env|A=b|metarouter|builtin|files", false},
		{"npx|-y|metarouter|serve", true},
		{"npx|-y|@scope/metarouter@1.2|serve", true},
		{"npx|--package|x|metarouter@latest|serve", true},
		{"npx|-y|@scope/server|/home/me/metarouter", false},
		{"uvx|--from|x|metarouter|serve", true},
		{"sudo|-u|metarouter|node|server.js", false},
		{"sudo|nohup|metarouter|serve", true},
		{"sh|-c|metarouter serve", true},
		{"bash|-lc|cd /x && A=1 exec 'metarouter' serve", true},
		{"bash|-lc|cd ~/src/metarouter && node server.js", false},
		{"bash|-l|-c|echo hi; \"/opt/my dir/metarouter\" --config x serve", true},
		{"sh|-c|metarouter builtin files", false},
		{"sh|-c|metarouter builtin files; metarouter serve", true},
		{"sh|-c|sh -c 'metarouter serve'", true},
		{"cmd|/c|metarouter|serve", true},
		{"cmd.exe|/d|/c|npx -y metarouter serve", true},
		{"node|metarouter|serve", false},
		{"env", false},
		{"sh|-c", false},
	} {
		words := strings.Split(tt.line, "|")
		expect.Equal(t, env.startsRouter(words[0], words[1:], dir), tt.want, "%s", tt.line)
	}
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
