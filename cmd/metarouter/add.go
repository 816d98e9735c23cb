package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// addOptions are the flags of add and of add-json.
type addOptions struct {
	transport      string
	env, headers   []string
	replace, write bool
}

func newAddCommand(env *environment) *cobra.Command {
	var o addOptions
	var cmd *cobra.Command
	const use = "add NAME -- COMMAND [ARGUMENT…] | add NAME URL"
	cmd = newCommand(use, "Add a server to the configuration",
		`  metarouter add memory -- npx -y @modelcontextprotocol/server-memory            # show what would change
  metarouter add memory --write -- npx -y @modelcontextprotocol/server-memory    # change it, and keep a copy
  metarouter add github -e 'GITHUB_TOKEN=${GITHUB_TOKEN}' --write -- npx -y @modelcontextprotocol/server-github
  metarouter add docs https://example.com/mcp -H 'Authorization: Bearer ${DOCS_TOKEN}' --write`,
		cobra.ArbitraryArgs, func(ctx context.Context, args []string) error {
			name, entry, err := o.entry(env, args, cmd.ArgsLenAtDash())
			if err != nil {
				return exit.Usage(fmt.Errorf("%w\ntry 'metarouter add --help'", err))
			}
			if err = runAdd(ctx, env, name, entry.Text, o); err == nil {
				o.noteBehindDash(env, args, cmd.ArgsLenAtDash())
			}
			return err
		})
	cmd.Long = `Adds a server to the configuration in use: a COMMAND that speaks MCP over stdio, or
the URL of a server on the network. A line for 'claude mcp add' works too.

` + aboutAdd
	cmd.Flags().StringVarP(&o.transport, "transport", "t", "", "Reach the server by this `TRANSPORT`: stdio, http or sse. (default stdio for a command; for a URL, http is tried, then sse)")
	cmd.Flags().StringArrayVarP(&o.env, "env", "e", nil, "Start the server with this variable, a `KEY=VALUE`. A value such as ${GITHUB_TOKEN} is taken from the environment of the router. Repeat the flag for several.")
	cmd.Flags().StringArrayVarP(&o.headers, "header", "H", nil, "Send this header to the server, as `\"Name: value\"`. Repeat the flag for several.")
	o.addFlags(env, cmd)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w\nif this option is the server's, write -- before its command: %s", err, dashed(env.args))
	})
	return cmd
}

func newAddJSONCommand(env *environment) *cobra.Command {
	var o addOptions
	cmd := newCommand("add-json NAME JSON", "Add a server to the configuration, as an entry in JSON",
		`  metarouter add-json docs '{"url": "https://example.com/mcp"}' --write`,
		arguments(2, 2, "name the server, and write its entry as an object of JSON"), func(ctx context.Context, args []string) error {
			return runAdd(ctx, env, args[0], func(string) string { return args[1] }, o)
		})
	cmd.Long = "Adds a server to the configuration in use. JSON is what stands after the server's name in the file.\n\n" + aboutAdd
	o.addFlags(env, cmd)
	return cmd
}

const aboutAdd = `It prints what would change, with values that may be secret hidden. --write writes
the file and keeps a copy of the old one next to it. Everything else in the file
stays as it is, byte for byte. Of several files, the last one gets the entry. If there is
no configuration yet, your own file is created.`

func (o *addOptions) addFlags(env *environment, cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.replace, "replace", false, "Replace the server of that name. By default it is an error that there is one.")
	addWriteFlag(cmd, &o.write)
	addScopeFlag(env, cmd)
}

// entry returns the server's name and its entry. dash is how many of the arguments are
// before "--", or -1 without it.
func (o addOptions) entry(env *environment, args []string, dash int) (name string, e clients.NewEntry, err error) {
	variables := slices.Clone(o.env)
	if dash > 1 && len(o.env) > 0 { // "-e A=1 B=2 -- COMMAND", as claude allows
		var kept []string
		for i, arg := range args {
			if key, _, ok := strings.Cut(arg, "="); i < dash && ok && isVariable(key) {
				variables = append(variables, arg)
				continue
			}
			kept = append(kept, arg)
		}
		args = kept
	}
	if len(args) < 2 {
		return "", e, errors.New("name the server, and write its command or its URL: metarouter add NAME -- COMMAND ARGUMENT, or metarouter add NAME URL")
	}
	name, words := args[0], args[1:]
	isURL := strings.HasPrefix(words[0], "http://") || strings.HasPrefix(words[0], "https://")
	switch o.transport {
	case "", "stdio", "http", "sse":
		e.Type = o.transport
	case "streamable-http":
		e.Type = "http"
	default:
		return "", e, fmt.Errorf("--transport %q is unknown; write stdio, http or sse", o.transport)
	}
	remote := e.Type == "http" || e.Type == "sse" || e.Type == "" && isURL
	switch {
	case remote && !isURL:
		return "", e, fmt.Errorf("--transport %s needs a URL, such as https://example.com/mcp, instead of %q", o.transport, words[0])
	case remote && len(words) > 1 && (len(o.headers) == 0 || !strings.Contains(words[1], ":")):
		return "", e, fmt.Errorf("nothing can follow the URL, but %q does", words[1])
	case remote && len(variables) > 0:
		return "", e, errors.New("a server on the network gets no variables; leave out --env, or send a header with --header 'Name: value'")
	case !remote && len(o.headers) > 0:
		return "", e, errors.New("only a server on the network gets headers; leave out --header, or set a variable with --env KEY=VALUE")
	}
	if remote {
		e.URL = words[0] // behind it are more headers, as claude allows
		if e.Headers, err = pairs(slices.Concat(o.headers, words[1:]), ":", "--header", "'Name: value'"); err != nil {
			return "", e, err
		}
		return name, e, nil
	}
	if err := urlAsCommand(words[0]); err != nil {
		return "", e, err
	}
	if first, rest, ok := strings.Cut(words[0], " "); ok && len(words) == 1 && !strings.ContainsAny(first, `/\`) {
		if _, err := exec.LookPath(words[0]); err != nil {
			return "", e, fmt.Errorf("the command is one word with spaces; leave out the quotes: metarouter add %s -- %s %s", name, first, rest)
		}
	}
	e.Type, e.Command, e.Args = "", words[0], words[1:]
	if e.Env, err = pairs(variables, "=", "--env", "KEY=VALUE"); err != nil {
		return "", e, err
	}
	if e.Cwd, err = startFolder(words); err == nil && e.Cwd != "" {
		env.Note("note: the server starts in %s, since its command has a path that is relative to it", e.Cwd)
	}
	return name, e, err
}

// urlAsCommand returns an error if a command is a URL, or one without https://: a host with a
// path that no file has.
func urlAsCommand(word string) error {
	shown := secret.Words([]string{word}, "…")[0]
	if strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://") {
		return fmt.Errorf("that is a URL: write %s without --transport stdio, which is for commands", shown)
	}
	host, _, ok := strings.Cut(word, "/")
	if !ok || !strings.Contains(host, ".") || strings.HasPrefix(host, ".") || strings.ContainsFunc(host, func(r rune) bool {
		return !strings.ContainsRune(".-:", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return nil
	}
	if _, err := os.Stat(word); err == nil {
		return nil
	}
	return fmt.Errorf("that is a URL: write https://%s, or ./%s if it is a file", shown, shown)
}

// noteBehindDash names options of add that stand after "--", where they are the server's.
func (o addOptions) noteBehindDash(env *environment, args []string, dash int) {
	if dash < 0 {
		return
	}
	for _, option := range []struct {
		name  string
		given bool
	}{{"--write", o.write}, {"--replace", o.replace}, {"--config", len(env.files.Paths) > 0}} {
		if !option.given && slices.ContainsFunc(args[dash:], func(arg string) bool {
			return arg == option.name || strings.HasPrefix(arg, option.name+"=")
		}) {
			env.Note("note: %s after -- belongs to the server; put it before -- if metarouter is to have it", option.name)
		}
	}
}

// dashed returns the command line "add NAME COMMAND …" with "--" before the command.
func dashed(args []string) string {
	at := slices.Index(args, "add") + 1
	if at == 0 || len(args) < at+2 || strings.HasPrefix(args[at], "-") || strings.HasPrefix(args[at+1], "-") {
		return "metarouter add NAME -- COMMAND ARGUMENT"
	}
	words := secret.Words(slices.Insert(slices.Clone(args), at+1, "--"), "…")
	for i := range words {
		words[i] = clients.Word(words[i])
	}
	return "metarouter " + strings.Join(words, " ")
}

// isVariable reports whether a word can be the name of a variable.
func isVariable(word string) bool {
	return word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

// pairs returns the names and values that were given to a flag.
func pairs(given []string, separator, flag, form string) (all [][2]string, err error) {
	for _, text := range given {
		name, value, ok := strings.Cut(text, separator)
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, fmt.Errorf("%s needs %s, but a value without %q was given", flag, form, separator) // not the value, which may be secret
		}
		if separator == ":" {
			value = strings.TrimSpace(value)
		}
		all = slices.DeleteFunc(all, func(p [2]string) bool { return p[0] == name }) // the last one counts
		all = append(all, [2]string{name, value})
	}
	return all, nil
}

// runAdd puts an entry into the configuration in use.
// text returns the entry as it is written into the file at path.
func runAdd(ctx context.Context, env *environment, name string, text func(path string) string, o addOptions) error {
	files, err := filesInUse(env)
	if err != nil {
		return err
	}
	f, place, number, err := fileOf(files, name)
	switch {
	case err != nil:
		return err
	case number == 0:
		f = files[len(files)-1]
	case !o.replace:
		return exit.Usage(fmt.Errorf("there is a server %q already, at %s; add --replace to replace it, or choose another name", name, place))
	}
	entry := text(f.Path)
	login, err := judgeEntry(env, f, name, entry)
	if err != nil {
		return err
	}
	if f.text, err = clients.PutServer(f.Path, f.Data, name, entry); err != nil {
		return exit.Usage(err)
	}
	if clients.Hides(f.Path, []byte(entry)) {
		f.keep = 0o600
	}
	noteOwnFile(env, f.Path)
	used, err := f.apply(env, o.write)
	if used && login && err == nil {
		var paths []string
		for _, f := range files {
			paths = append(paths, f.Path)
		}
		return offerLogin(ctx, env, paths, []string{name})
	}
	if used && err == nil {
		env.Note("next: metarouter tools %s%s", clients.Word(name), env.files.Flags())
	}
	return err
}

// judgeEntry notes what is wrong with an entry. If it could never start a server, that is an
// error. login reports whether the server may need a login.
func judgeEntry(env *environment, f edited, name, entry string) (login bool, err error) {
	alone, err := clients.PutServer(f.Path, nil, name, entry)
	if err != nil {
		return false, exit.Usage(err)
	}
	c, err := config.Read(f.Path, alone)
	problem, refused := errors.AsType[config.Problem](err)
	if err != nil && !refused {
		return false, exit.Usage(err)
	}
	if len(c.Servers) == 0 { // the name is that of a setting, or the entry is no object
		why := "it is no entry of a server"
		if refused {
			why = problem.Message
		} else if len(c.Problems) > 0 {
			why = c.Problems[0].Message
		}
		return false, exit.Usage(fmt.Errorf("the entry %q: %s", name, why))
	}
	s := c.Servers[0]
	if s.Self {
		return false, exit.Usage(fmt.Errorf("this entry would start metarouter within metarouter; to add metarouter to a client, use 'metarouter install CLIENT'"))
	}
	for _, p := range c.Problems {
		if s.Misconfigured != "" && p.Unset == "" && !p.IsWarning() {
			for _, w := range c.Problems { // such as a misspelled "command"
				if w.IsWarning() {
					env.Note("note: %s", w.Message)
				}
			}
			return false, exit.Usage(errors.New(p.Message))
		}
		env.Note("note: %s", p.Message)
	}
	if login = clients.MayNeedLogin(entry, s); login {
		noteLogin(env, []string{name})
	}
	written, err := config.ReadText(f.Path, alone)
	if err == nil && len(written.Servers) > 0 && slices.ContainsFunc(written.Servers[0].Secrets(), func(value string) bool { return !strings.Contains(value, "${") }) {
		env.Note("note: a value that may be secret stands in the file as text; to keep it out, write ${NAME} in single quotes instead, and set the variable NAME for the program that starts metarouter")
	}
	return login, nil
}
