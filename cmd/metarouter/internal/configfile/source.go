// Package configfile finds and reads the configuration of a command, and makes sure that it may be
// used: one that was found and not named runs commands of other people, so that the person must
// have approved it.
package configfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/process"
)

// A Source says where a command finds its configuration.
type Source struct {
	Console *console.Console
	Paths   []string // --config
	Data    string   // --data, the data folder; "" keeps nothing
	Profile *string  // --profile of a command that asks a router; nil if it is not given
}

// DefaultData returns the usual data folder; "" on a system without one.
func DefaultData() string {
	if folder, err := os.UserCacheDir(); err == nil {
		return filepath.Join(folder, "metarouter")
	}
	return ""
}

// Flags returns the --config flags of the command line, for a further command.
func (s *Source) Flags() string { return commandline.Flags("--config", s.Paths) }

// advised matches a command that reads the configuration, in an advice, with the server that it
// names. The first group is a command that has --profile.
var advised = lazy.Regexp(`\bmetarouter (?:(?:disable|enable|install|login|logout|remove|restart|secret set \S+ --from|tools --seen --server|trust --hints)\b(?: '[^']*'(?:\\''[^']*')*| "(?:\\"|[^"])*"| [^\s'";)]*[^\s'";),])?|(?:add|check|doctor|import|init|serve|classify)\b|(call|capabilities|route|search|servers|tools|why)\b)`)

// Advise returns a text with the files of --config, and the profile, in its commands, as on the command line. A
// text that names files already stays as it is, and so does the command that imports one of them.
func (s *Source) Advise(text string) string {
	if strings.Contains(text, "--config") {
		return text
	}
	_, imported, _ := strings.Cut(text, " --file ")
	for _, path := range s.Paths {
		if path, err := filepath.Abs(path); err == nil && strings.Contains(imported, path) {
			return text
		}
	}
	return advised().ReplaceAllStringFunc(text, func(command string) string {
		if s.Profile != nil && advised().FindStringSubmatch(command)[1] != "" {
			return command + s.Flags() + " --profile " + commandline.Quote(*s.Profile)
		}
		return command + s.Flags()
	})
}

// Load finds and reads the configuration, and makes sure that it is trusted.
func (s *Source) Load(ctx context.Context) (config.Config, error) {
	c, named, err := s.Locate()
	if err == nil && !named {
		c, err = s.RequireTrust(ctx, c)
	}
	return c, err
}

// Locate finds and reads the configuration. named is false for a .mcp.json that
// --config does not name, which must not be used unless it is trusted. Until then c is no
// more than its text. With a mistake that refuses the files, c has their paths alone.
func (s *Source) Locate() (c config.Config, named bool, err error) {
	if os.Getenv(process.DepthVariable) != "" {
		return c, false, console.Usage(errors.New("this process was started by a metarouter, and a router inside a router would start itself without end; take the entry out of the configuration"))
	}
	paths, named, err := s.Find()
	if err == nil {
		c, _, err = s.Read(paths, named)
	}
	if _, mistake := errors.AsType[config.Problem](err); mistake {
		c = config.Config{Files: paths}
	}
	return c, named, console.Usage(Unreadable(err))
}

// Find is [configpath.Find], with a [NoConfiguration] if there is no configuration yet: no file is found,
// or --config names the user's own file, as entries of 'install' do, and it does not exist.
func (s *Source) Find() (paths []string, named bool, err error) {
	paths, named, err = configpath.Find(s.Paths)
	own, _ := configpath.Own()
	if errors.Is(err, fs.ErrNotExist) || len(paths) == 1 && paths[0] == own && !clients.Exists(own) {
		return nil, false, Missing()
	}
	return paths, named, console.Usage(err)
}

// Read reads the configuration. If it was found and not named, and is not trusted, c
// is no more than the text of the files.
func (s *Source) Read(paths []string, named bool) (c config.Config, usable bool, err error) {
	if named {
		c, err = config.Load(paths...)
		return c, err == nil, err
	}
	if c, err = config.LoadText(paths...); err != nil {
		return c, false, err
	}
	if usable = c.Text.Trusted(s.Data) == nil; usable { // RequireTrust returns the error
		c, err = c.Expand()
	}
	return c, usable, err
}

// Usable returns the configuration in use, if it can be read and is trusted.
func (s *Source) Usable() (c config.Config, ok bool) {
	paths, named, err := s.Find()
	if err != nil {
		return c, false
	}
	c, ok, err = s.Read(paths, named)
	return c, ok && err == nil
}

// Unreadable adds the fix to an error that says that a configuration file can't be read.
func Unreadable(err error) error {
	path, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err
	}
	if info, failed := os.Stat(path.Path); failed == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder; name the file in it, such as %s", path.Path, filepath.Join(path.Path, ".mcp.json"))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no configuration file %s; correct the path, or create the file with: metarouter init --write --config %s", path.Path, commandline.Quote(path.Path))
	}
	return err
}

// A NoConfiguration is the error that there is no configuration yet. It says which commands make one.
type NoConfiguration struct {
	found []clients.Found
}

// Missing returns a [NoConfiguration], with the clients of this machine that have servers.
func Missing() error {
	folder, _ := os.Getwd()
	if p, err := clients.ThisSystem(); err == nil {
		return console.Usage(&NoConfiguration{clients.Survey(p, folder)})
	}
	return console.Usage(&NoConfiguration{})
}

func (e *NoConfiguration) Error() string {
	if len(e.found) == 0 {
		return "there is no configuration yet, and no client was found that has servers; begin with\n" +
			"  metarouter init --write\n" +
			"or add a server with 'metarouter add NAME --write -- COMMAND', or name a file with --config"
	}
	var b strings.Builder
	b.WriteString("there is no configuration yet; import the servers of a client:\n")
	for _, f := range e.found {
		fmt.Fprintf(&b, "  %s\n      %s\n", plain.Line(f.Command()), plain.Line(f.String()))
	}
	b.WriteString("or begin with the bundled servers, 'metarouter init --write', or name a file with --config")
	return b.String()
}

// Problem returns the error as a problem of the user's own file.
func (e *NoConfiguration) Problem(severity string) config.Problem {
	const what = "there is no configuration yet; type "
	p := config.Problem{Severity: severity, Fix: "metarouter init --write", Message: what + "'metarouter init --write', or add a server with 'metarouter add'"}
	p.File, _ = configpath.Own()
	if len(e.found) > 0 {
		p.Fix = plain.Line(e.found[0].Command())
		p.Message = fmt.Sprintf("%s'%s' to import %s, or 'metarouter init --write'", what, p.Fix, plain.Line(e.found[0].String()))
	}
	return p
}
