package process

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/program"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

const (
	// shellTime is how long the login shell may take to start.
	shellTime = 5 * time.Second

	// shellLife is how long its variables are remembered at most, since files that its files name may change.
	shellLife = 24 * time.Hour

	// shellRetry is for how long it is remembered that the shell has not answered: the system may have been busy.
	shellRetry = 10 * time.Minute

	maxShellFile = 1 << 20
)

// ofClients are variables in which programs of one user differ.
var ofClients = []string{"LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "XDG_SESSION_ID"}

// OfClients reports whether programs of one user differ in the variable.
func OfClients(name string) bool { return passes(ofClients, name) }

// A Base is the environment of this process once [Settle] has made it: that of the user's login shell, whichever
// program has started this process.
type Base struct {
	all   func() map[string]string // asks the login shell once
	names []string                 // of its variables
	Left  map[string]string        // variables of the client that has started this process, which servers do not get
}

// Settle makes the environment of this process the one that servers get, which does not depend on the client that has
// started it. The safe variables of [Environment] are the login shell's, if it sets them; for a process that others share,
// the locale and the time zone are no one else's. PATH has the login shell's folders, then those that this process had besides.
// All other variables stay. The safe variables are remembered in dataDir until the shell's files change; "" remembers nothing.
//
// Without an answer of the shell within 5 seconds, its last answer counts. Without one, and on Windows, the environment stays
// as it is.
func Settle(ctx context.Context, dataDir string, isShared bool) *Base {
	b := &Base{all: sync.OnceValue(func() map[string]string { return askShell(ctx) }), Left: make(map[string]string)}
	if runtime.GOOS == "windows" {
		return b
	}
	record := remembered(dataDir, b.all)
	base := record.Variables
	b.names = record.Names
	if base["PATH"] == "" {
		return b
	}
	ours := program.Folders(os.Getenv("PATH"))
	shells := program.Folders(base["PATH"])
	base["PATH"] = program.Join(append(shells, slices.DeleteFunc(ours, func(folder string) bool { return slices.Contains(shells, folder) })...))
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if _, ok := base[name]; !ok && isShared && passes(ofClients, name) {
			os.Unsetenv(name)
			b.Left[name] = value
		}
	}
	for name, value := range base {
		os.Setenv(name, value)
	}
	return b
}

// Lookup returns the login shell's value of a variable that this process does not have. A nil Base has none.
func (b *Base) Lookup(name string) (value string, ok bool) {
	if b == nil || reserved(name) || !slices.Contains(b.names, name) {
		return "", false
	}
	value, ok = b.all()[name]
	return value, ok
}

// A shellRecord is the file in which the login shell's variables are remembered.
type shellRecord struct {
	Files     string            `json:"files"` // their sizes and times of change
	Since     time.Time         `json:"since"`
	Variables map[string]string `json:"variables"` // without PATH if the shell has not answered
	Names     []string          `json:"names"`     // of all its variables, also of those that are not kept here
}

// remembered returns the safe variables of the login shell, as the file has them or else as ask returns them; nil is no answer.
func remembered(dataDir string, ask func() map[string]string) shellRecord {
	path := filepath.Join(dataDir, "environment.json")
	files := shellFiles()
	kept := dataDir != "" && safefile.OwnersOnly(dataDir) == nil
	var r shellRecord
	if kept {
		data, err := safefile.ReadOwn(path, maxShellFile)
		if err == nil && json.Unmarshal(data, &r) == nil && r.Files == files && r.Variables != nil {
			if age := time.Since(r.Since); age < shellRetry || age < shellLife && r.Variables["PATH"] != "" {
				return r
			}
		}
	}
	answer := ask()
	if answer == nil && r.Variables["PATH"] != "" && strings.HasPrefix(r.Files, shell()+" ") {
		// The same shell's last answer is better than none. The shell is asked again after shellRetry.
		r.Files, r.Since = files, time.Now().Add(shellRetry-shellLife)
	} else {
		r = shellRecord{Files: files, Since: time.Now(), Variables: make(map[string]string)}
	}
	for name, value := range answer {
		r.Names = append(r.Names, name)
		if !reserved(name) && (passes(safe, name) || name == "LANGUAGE") || name == "PATH" {
			r.Variables[name] = withoutPassword(name, value)
		}
	}
	if data, err := json.Marshal(r); err == nil && kept {
		_ = safefile.Write(path, data, false) // else the shell is asked again
	}
	return r
}

// shell returns the user's login shell, "" if it is not known.
func shell() string {
	if path := os.Getenv("SHELL"); path != "" {
		return path
	}
	me, err := user.Current()
	if err != nil {
		return ""
	}
	accounts, _ := safefile.Read("/etc/passwd", maxShellFile)
	for line := range strings.Lines(string(accounts)) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); len(fields) == 7 && fields[2] == me.Uid {
			return fields[6]
		}
	}
	return ""
}

// shellFiles identifies the files that login shells read, as they are now.
func shellFiles() string {
	home, _ := os.UserHomeDir()
	files := []string{
		shell(), "/etc/environment", "/etc/default/locale", "/etc/locale.conf", "/etc/paths", "/etc/paths.d", "/etc/profile", "/etc/profile.d",
		"/etc/bash.bashrc", "/etc/bashrc", "/etc/zshenv", "/etc/zprofile", "/etc/zshrc", "/etc/zsh", "/etc/fish/config.fish",
	}
	for _, name := range []string{
		".profile", ".bash_profile", ".bash_login", ".bashrc", ".zshenv", ".zprofile", ".zshrc", ".zlogin",
		".config/fish/config.fish", ".config/fish/conf.d", ".config/fish/fish_variables",
	} {
		files = append(files, filepath.Join(home, name))
	}
	var said strings.Builder
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			fmt.Fprintf(&said, "%s %d %d\n", file, info.Size(), info.ModTime().UnixNano())
		}
	}
	return said.String()
}

// A limited keeps the first bytes that are written to it.
type limited struct {
	kept bytes.Buffer // not embedded: io.Copy would fill it by its ReadFrom
	left int
}

// Write implements [io.Writer]. It reports the bytes that are not kept as written, too.
func (l *limited) Write(p []byte) (int, error) {
	keep := p[:min(len(p), l.left)]
	l.left -= len(keep)
	l.kept.Write(keep)
	return len(p), nil
}

// askShell returns the variables of the login shell, nil without an answer within shellTime. It starts with the least that a
// login gives it, so that it does not pass on what our own parent has set.
func askShell(ctx context.Context) map[string]string {
	path := shell()
	if runtime.GOOS == "windows" || path == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, shellTime)
	defer cancel()
	const fence = "__METAROUTER__"
	// Interactive too, since version managers write into the interactive start-up files.
	cmd := exec.CommandContext(ctx, path, "-ilc", `printf `+fence+`; /usr/bin/env -0 2>/dev/null || /usr/bin/env; printf `+fence)
	cmd.Env = []string{"TERM=dumb", "SHELL=" + path, "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", DepthVariable + "=1"}
	for _, name := range []string{"HOME", "USER", "LOGNAME", "TMPDIR", "ZDOTDIR", "XDG_CONFIG_HOME"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		cmd.Dir = home
	}
	detach(cmd)
	cmd.WaitDelay = time.Second
	out := &limited{left: maxShellFile}
	cmd.Stdout = out
	_ = cmd.Run() // what it has said between the fences counts
	parts := strings.Split(out.kept.String(), fence)
	if len(parts) != 3 {
		return nil
	}
	separator := "\n"
	if strings.Contains(parts[1], "\x00") {
		separator = "\x00"
	}
	variables := make(map[string]string)
	for variable := range strings.SplitSeq(parts[1], separator) {
		name, value, ok := strings.Cut(variable, "=")
		if ok && !slices.Contains([]string{"TERM", "SHLVL", "_", "PWD", "OLDPWD"}, name) && name != "" {
			variables[name] = value
		}
	}
	for _, file := range []string{"/etc/default/locale", "/etc/locale.conf"} { // which a login reads, and a shell does not
		text, _ := safefile.Read(file, maxShellFile)
		for line := range strings.Lines(string(text)) {
			name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
			if _, set := variables[name]; ok && !set && passes([]string{"LANG", "LANGUAGE", "LC_*"}, name) {
				variables[name] = strings.Trim(value, `"'`)
			}
		}
	}
	return variables
}

// Adopt gives this process the variables of a client that it lacks, of those that all servers get, and the folders of the
// client's PATH. The locale is not among them.
func Adopt(variables map[string]string) {
	for name, value := range variables {
		if _, has := os.LookupEnv(name); !has && !reserved(name) && (passes(safe, name) || passes(slices.Collect(maps.Keys(runners)), name)) && !passes(ofClients, name) {
			os.Setenv(name, value)
		}
	}
	ours := program.Folders(os.Getenv("PATH"))
	theirs := slices.DeleteFunc(program.Folders(variables["PATH"]), func(folder string) bool { return slices.Contains(ours, folder) })
	if len(theirs) > 0 {
		os.Setenv("PATH", program.Join(append(ours, theirs...)))
	}
}
