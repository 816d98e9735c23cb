package program

import (
	"slices"
	"strings"
	"testing"
)

func TestForWindows(t *testing.T) {
	for _, tc := range []struct{ line, want string }{ // words are separated by |
		{"cmd|/c|npx|-y|x", "npx|-y|x"},
		{"cmd.exe|/C|npx|-y|x", "npx|-y|x"},
		{`C:\Windows\System32\cmd.exe|/d|/s|/c|npx.cmd|x`, "npx|x"},
		{"cmd|/c|npx -y x", "npx|-y|x"},
		{"cmd|/c|own-server|a b", "own-server|a b"},
		{`cmd|/c|C:\Program Files\nodejs\npx.cmd|x`, "npx|x"},
		{`C:\Program Files\nodejs\npx.cmd|-y|x`, "npx|-y|x"},
		{`C:/nodejs/node.exe|s.js`, "node|s.js"},
		{"npx.cmd|x", "npx|x"}, {"uvx.exe|x", "uvx|x"},
		{"cmd|/c|npx|https://a/%20b", "npx|https://a/%20b"},

		// Lines that only a shell of Windows can run.
		{"cmd", ""}, {"cmd|/c", ""}, {"cmd|/k|npx|x", ""}, {"cmd|/c|", ""},
		{"cmd|/c|npx|x|&|calc", ""}, {"cmd|/c|npx x & calc", ""}, {"cmd|/c|npx|%USERPROFILE%", ""}, {"cmd|/c|npx|a>b", ""}, {`cmd|/c|npx "a b"`, ""}, {"cmd|/c|npx|a^b", ""},
		{"cmd|/c|cmd|/c|npx|x", ""}, {`cmd|/c|node|C:\Users\me\s.js`, ""}, {`cmd|/c|C:\tools\own.exe`, ""}, {`cmd|/c|.\own`, ""}, {"cmd|/c|./own|x", ""},
		{"powershell|-Command|npx -y x", ""}, {"powershell|-File|a.ps1", ""},
		{`C:\tools\own.exe|x`, ""}, {`\\host\share\own.exe`, ""}, {`C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe|-File|x`, ""},

		// No command lines for Windows.
		{"npx|-y|x", "-"}, {"pwsh|-Command|npx x", "-"}, {"/usr/bin/cmd.sh|/c|npx", "-"}, {"/opt/pwsh|-c|npx x", "-"}, {"/bin/cmd|/c|npx", "-"}, {`C:\pwsh.exe|-c|npx x`, ""}, {"own.exe|x", "-"}, {"", "-"},
	} {
		words := strings.Split(tc.line, "|")
		w, ok := ForWindows(words[0], words[1:])
		got := strings.Join(append([]string{w.Command}, w.Args...), "|")
		if !ok {
			got = "-"
		}
		if got != tc.want || w.Known != (w.Command != "" && slices.Contains(launchers, w.Command)) {
			t.Errorf("%s: %s (%v), want %s", tc.line, got, w.Known, tc.want)
		}
	}
}
