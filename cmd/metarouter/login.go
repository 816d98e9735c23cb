package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/browser"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

const (
	// beginTime is how long it may take to find the issuer and to register with it.
	beginTime = time.Minute
	// maxPasted is how many pasted lines may be no URL of the login.
	maxPasted = 5
	// maxPastedLine is the longest such line, in bytes.
	maxPastedLine = 64 << 10
)

// loginOptions are the flags of login.
type loginOptions struct {
	noBrowser, paste, device bool
	scopes                   []string
}

func newLoginCommand(env *environment) *cobra.Command {
	var o loginOptions
	cmd := newCommand("login NAME", "Log in to a remote server with a browser, for all clients",
		`  metarouter login linear
  metarouter login linear --paste     # the browser is on another machine
  metarouter login linear --device    # enter a code on any device`,
		exactly("name one server; 'metarouter servers' lists all"),
		func(ctx context.Context, args []string) error { return runLogin(ctx, env, args[0], o) })
	cmd.Long = `Logs in to a remote server (OAuth), once for all clients. It opens the browser, and waits
up to 5 minutes for you. A line on stdout is the URL to open; all else is on stderr. Routers that run use the login at once.

The login is kept encrypted next to your own configuration, and is renewed until
'metarouter logout' ends it.`
	cmd.Flags().BoolVar(&o.noBrowser, "no-browser", false, "Only print the URL, for a browser of this machine. By default the browser is opened, unless you are logged in over SSH or there is no terminal.")
	cmd.Flags().BoolVar(&o.paste, "paste", false, "Ask for the URL at which the browser ends, or read it from stdin, for a browser on another machine. By default the browser comes back by itself; on a terminal, the URL can be pasted all the same.")
	cmd.Flags().BoolVar(&o.device, "device", false, "Print a URL, and on a second line of stdout a code to enter there, on any device. Not all servers can do this. By default the browser needs no code.")
	cmd.Flags().StringArrayVar(&o.scopes, "scope", nil, "Ask for this `scope` besides those that the server names and those of the last login. Repeat the flag for several.")
	return cmd
}

func runLogin(ctx context.Context, env *environment, name string, o loginOptions) error {
	c, err := loadConfig(ctx, env)
	if err != nil {
		return err
	}
	entry, err := configfile.Server(c, name)
	if err != nil {
		return err
	}
	if err := mayLogIn(entry); err != nil {
		return exit.Usage(err)
	}
	if entry.OAuth != nil && entry.OAuth.Grant == string(oauth.DeviceCode) {
		o.device = true
	}
	if o.device && o.paste {
		return exit.Usage(errors.New("a login with a code (--device) has no URL to paste; leave --paste out"))
	}
	disabled := entry.Disabled
	entry.Disabled = false // the login is tried at the server
	err = env.local.Run(ctx, only(c, entry), func(ctx context.Context, r *adapter.Parts) error { return logIn(ctx, env, r, name, o) })
	if err == nil && disabled {
		env.Note("note: the server is disabled; to use it: metarouter enable %s --write", clients.Word(name))
	}
	return err
}

// only returns the configuration with one server alone, and with no other server's problems.
func only(c config.Config, entry config.Server) config.Config {
	c.Servers = []config.Server{entry}
	c.Problems = slices.DeleteFunc(slices.Clone(c.Problems), func(p config.Problem) bool { return p.Server != entry.Name })
	return c
}

// mayLogIn returns why no person can log in to the server of an entry.
func mayLogIn(entry config.Server) error {
	switch {
	case entry.Self:
		return fmt.Errorf("the entry %q would start metarouter itself; take it out of the configuration", entry.Name)
	case entry.Transport == config.Stdio || entry.URL == "" && entry.Misconfigured == "":
		return fmt.Errorf("%s is a program on this machine; it needs no login here. If it wants a token, see its README", entry.Name)
	case entry.Misconfigured != "":
		return fmt.Errorf("the entry of %s can't be used: %s", entry.Name, entry.Misconfigured)
	case ownHeader(entry) != "":
		return fmt.Errorf(`the entry of %s has the header %q, which is sent instead of a login; take it out of "headers" first`, entry.Name, ownHeader(entry))
	case entry.OAuth != nil && entry.OAuth.Grant == string(oauth.ClientCredentials):
		return fmt.Errorf(`%s needs no login: the router gets its tokens with the client's secret or key ("grant": "client_credentials"); 'metarouter servers %s' shows whether that works`, entry.Name, clients.Word(entry.Name))
	}
	return nil
}

// ownHeader returns the name of the entry's Authorization header, as it is written; "" if it has
// none.
func ownHeader(entry config.Server) string {
	for name := range entry.Headers {
		if http.CanonicalHeaderKey(strings.TrimSpace(name)) == "Authorization" {
			return name
		}
	}
	return ""
}

// logIn makes a login at the server, and tries the server with it.
func logIn(ctx context.Context, env *environment, r *adapter.Parts, name string, o loginOptions) error {
	request := login.Request{Way: login.Loopback, Scopes: o.scopes}
	if o.device {
		request.Way = login.Device
	}
	env.Note("Looking up how to log in to %s …", name)
	bounded, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	p, err := r.BeginLogin(bounded, name, request)
	switch {
	case ctx.Err() != nil:
		return exit.Interrupted
	case err != nil:
		return notBegun(ctx, env, r, name, err)
	}
	if p.Device != nil {
		showCode(env, p)
		err = p.Wait(ctx)
	} else {
		err = awaitLogin(ctx, env, p, o.paste, showPage(env, p, o))
	}
	switch {
	case ctx.Err() != nil:
		return exit.Interrupted
	case err != nil:
		return err // it names the server
	}
	return tryLogin(ctx, env, r, name)
}

// notBegun returns the error of a login that could not begin. A server that works without is none.
func notBegun(ctx context.Context, env *environment, r *adapter.Parts, name string, err error) error {
	bounded, cancel := context.WithTimeout(ctx, scriptTime)
	defer cancel()
	if r.Await(bounded, name) == nil {
		state, _ := r.LoginState(bounded, name)
		if !state.LoggedIn {
			env.Note("%s works without a login; it has %s.", name, console.Counted(toolsOf(r, name), "tool"))
			return nil
		}
	}
	if ctx.Err() != nil {
		return exit.Interrupted
	}
	return err // it names the server
}

// tryLogin starts the server with the login.
func tryLogin(ctx context.Context, env *environment, r *adapter.Parts, name string) error {
	state, err := r.LoginState(ctx, name)
	where := ""
	if err == nil && state.Issuer != "" {
		where = fmt.Sprintf(" (issuer %s)", state.Issuer)
	}
	if err := oneshot.AwaitServer(ctx, env.Console, r, name); err != nil {
		if ctx.Err() != nil {
			return exit.Interrupted
		}
		return fmt.Errorf("logged in to %s%s, but the server does not work: %w; 'metarouter doctor' says what to do", name, where, err)
	}
	env.Note("Logged in to %s%s; it has %s.", name, where, console.Counted(toolsOf(r, name), "tool"))
	if err == nil && state.LoggedIn && !state.Renews {
		note := "note: the issuer gave no refresh token, so the login ends with its token"
		if !state.Expires.IsZero() {
			note += ", " + until(state.Expires, time.Now())
		}
		env.Note("%s", note)
	}
	return nil
}

func toolsOf(r *adapter.Parts, name string) int {
	for _, s := range r.Servers() {
		if s.Name == name {
			return s.Tools
		}
	}
	return 0
}

// showCode prints where a person enters which code.
func showCode(env *environment, p *login.Pending) {
	page := cmp.Or(p.Device.CompleteURL, p.Device.URL)
	env.Note("Open this page on any device. If it asks for a code, enter the one below it:")
	env.Say("%s", page)
	env.Say("%s", p.Device.UserCode)
	if page != p.Device.URL {
		env.Note("The page for a code to type is %s", p.Device.URL)
	}
	env.Note("Waiting for you, %s; Ctrl-C gives up.", upTo(p.Expires))
}

// showPage prints where a person logs in, and opens the browser if that may be. The channel gets
// an error if the browser could not be opened; it is nil if none was tried.
func showPage(env *environment, p *login.Pending, o loginOptions) <-chan error {
	missing := browser.Missing(os.Getenv, runtime.GOOS)
	var opened <-chan error
	var err error
	open := !o.noBrowser && !o.paste && missing == "" && console.IsTerminal(env.Streams[2])
	switch {
	case open:
		env.Note("Log in to %s in your browser, which opens this page:", p.Server)
		opened, err = browser.Open(p.URL, os.Getenv)
	case o.paste:
		env.Note("Log in to %s: open this page in a browser of any machine:", p.Server)
	default:
		env.Note("Log in to %s: open this page in a browser:", p.Server)
	}
	env.Say("%s", p.URL)
	if err != nil {
		env.Note("The browser can't be opened (%v); open the page yourself.", err)
	}
	switch {
	case o.paste:
		env.Note("At the end, the browser may say that it can't show a page of 127.0.0.1 or localhost: that is right. Copy the URL of that page.")
	case missing != "" && !env.CanAsk():
		env.Note("The browser must run on this machine, but %s: run 'metarouter login %s --paste' on a terminal, or forward the port of the redirect_uri in the URL.", missing, clients.Word(p.Server))
	case missing != "":
		env.Note("The browser may run on another machine, since %s. Then it ends on a page that it can't show: paste the URL of that page here.", missing)
	}
	env.Note("Waiting for you, %s; Ctrl-C gives up.", upTo(p.Expires))
	return opened
}

// awaitLogin waits for the person, who may also paste the URL at which the browser ended. opened
// gets an error if the browser could not be opened.
func awaitLogin(ctx context.Context, env *environment, p *login.Pending, paste bool, opened <-chan error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var read func(ready func()) (string, error)
	switch {
	case env.CanAsk() && (paste || runtime.GOOS != "windows"): // where a read outlives ctx
		read = pastedOnTerminal(ctx, env, paste)
	case paste:
		read = pastedOnStdin(env)
	}
	pasted := make(chan error, 1)
	if read != nil {
		go func() { pasted <- takePasted(ctx, env, p, read) }()
	} else {
		pasted = nil
	}
	for {
		select {
		case <-p.Done():
			err := p.Wait(ctx)
			stop()
			if pasted != nil && env.CanAsk() {
				<-pasted // the terminal is free again
			}
			return err
		case err, failed := <-opened:
			opened = nil
			if failed {
				env.Note("The browser could not be opened (%v); open the page yourself.", err)
			}
		case err := <-pasted:
			pasted = nil
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil && paste:
				return err
			case err != nil:
				env.Note("%v", err)
			}
		case <-ctx.Done():
			if pasted != nil && env.CanAsk() {
				<-pasted
			}
			return ctx.Err()
		}
	}
}

// takePasted takes the lines of a person until one completes the login. It returns nil when it has
// ended otherwise, too.
func takePasted(ctx context.Context, env *environment, p *login.Pending, read func(ready func()) (string, error)) error {
	var refused error // of the last line; it is said when the next one is awaited, as older input is dropped
	say := func() {
		if refused != nil {
			env.Note("That does not complete the login: %s", terminal.Cut(plain.Line(refused.Error()), 500))
			refused = nil
		}
	}
	for range maxPasted {
		line, err := read(say)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, io.EOF) && strings.TrimSpace(line) == "" {
			return errors.New("stdin ended before the URL came; paste the URL at which the browser ended")
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the URL: %w", err)
		}
		err = p.Finish(ctx, strings.TrimSpace(line))
		select {
		case <-p.Done():
			return nil // Wait says how it ended
		default:
		}
		if err == nil || ctx.Err() != nil {
			return nil
		}
		refused = err
	}
	say()
	return fmt.Errorf("%d pasted lines were not the URL at which the browser ended; begin again with 'metarouter login %s --paste'", maxPasted, clients.Word(p.Server))
}

// pastedOnTerminal returns what calls ready, and reads a line that is not empty from the terminal.
func pastedOnTerminal(ctx context.Context, env *environment, asks bool) func(ready func()) (string, error) {
	return func(ready func()) (string, error) {
		for {
			line, err := env.ReadLine(ctx, func() {
				ready()
				if asks {
					env.Note("Paste the URL here, then press Enter:")
				}
			})
			if err != nil || strings.TrimSpace(line) != "" {
				return line, err
			}
		}
	}
}

// pastedOnStdin returns what calls ready, and reads a line from stdin. A read is left behind when the program ends.
func pastedOnStdin(env *environment) func(ready func()) (string, error) {
	lines := bufio.NewReader(io.LimitReader(env.In, maxPasted*maxPastedLine))
	return func(ready func()) (string, error) {
		ready()
		return lines.ReadString('\n')
	}
}

// upTo says how long the login waits.
func upTo(expires time.Time) string {
	minutes := max(1, int(time.Until(expires).Round(time.Minute)/time.Minute))
	return "up to " + console.Counted(minutes, "minute")
}
