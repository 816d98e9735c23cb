// Package logins carries out the commands that log in to remote servers, and out of them. Package login
// keeps the logins.
package logins

import (
	"bufio"
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

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

const (
	// beginTime is how long it may take to find the issuer and to register with it.
	beginTime = time.Minute
	// keyringTime is how long the keyring may take.
	keyringTime = 10 * time.Second
	// maxPasted is how many pasted lines may be no URL of the login.
	maxPasted = 5
	// maxPastedLine is the longest such line, in bytes.
	maxPastedLine = 64 << 10
)

// Options are the flags of login.
type Options struct {
	NoBrowser, Paste, Device bool
	Scopes                   []string
}

// LogIn logs in to a server, for all clients.
func LogIn(ctx context.Context, local *service.Runner, name string, o Options) error {
	out := local.Files.Console
	c, err := local.Files.Load(ctx)
	if err != nil {
		return err
	}
	entry, err := configfile.Server(c, name)
	if err != nil {
		return err
	}
	if err := mayLogIn(entry); err != nil {
		return console.Usage(err)
	}
	if entry.OAuth != nil && entry.OAuth.Grant == oauth.DeviceCode {
		o.Device = true
	}
	if o.Device && o.Paste {
		return console.Usage(errors.New("a login with a code (--device) has no URL to paste; leave --paste out"))
	}
	disabled := entry.Disabled
	entry.Disabled = false // the login is tried at the server
	err = local.Run(ctx, only(c, entry), func(ctx context.Context, r *adapter.Router) error { return logIn(ctx, out, r, name, o) })
	if err == nil && disabled {
		out.Note("note: the server is disabled; to use it: metarouter enable %s --write", commandline.Quote(name))
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
	case entry.URL == "" && (entry.Misconfigured == "" || entry.Transport == config.Stdio):
		return fmt.Errorf("%s runs on this machine; it needs no login here. If it wants a token, see its README", entry.Name)
	case entry.Misconfigured != "":
		return fmt.Errorf("the entry of %s can't be used: %s", entry.Name, entry.Misconfigured)
	case ownHeader(entry) != "":
		return fmt.Errorf(`the entry of %s has the header %q, which is sent instead of a login; take it out of "headers" first`, entry.Name, ownHeader(entry))
	case entry.OAuth != nil && entry.OAuth.Grant == oauth.ClientCredentials:
		return fmt.Errorf(`%s needs no login: the router gets its tokens with the client's secret or key ("grant": "client_credentials"); 'metarouter servers %s' shows whether that works`, entry.Name, commandline.Quote(entry.Name))
	}
	return nil
}

// ownHeader returns the name of the entry's Authorization header, as it is written; "" without
// one.
func ownHeader(entry config.Server) string {
	for name := range entry.Headers {
		if http.CanonicalHeaderKey(strings.TrimSpace(name)) == "Authorization" {
			return name
		}
	}
	return ""
}

// logIn makes a login at the server, and tries the server with it.
func logIn(ctx context.Context, out *console.Console, r *adapter.Router, name string, o Options) error {
	request := login.Request{Way: login.Loopback, Scopes: o.Scopes}
	if o.Device {
		request.Way = login.Device
	}
	out.Note("Looking up how to log in to %s …", name)
	bounded, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	p, err := r.BeginLogin(bounded, name, request)
	if err != nil {
		return err // it names the server
	}
	if p.Device != nil {
		showCode(out, p)
		err = p.Wait(ctx)
	} else {
		showPage(out, p, o)
		err = awaitLogin(ctx, out, p, o.Paste)
	}
	if err != nil {
		return err // it names the server
	}
	return tryLogin(ctx, out, r, name)
}

// tryLogin starts the server with the login.
func tryLogin(ctx context.Context, out *console.Console, r *adapter.Router, name string) error {
	state, err := r.LoginState(ctx, name, "")
	where := ""
	if err == nil && state.Issuer != "" {
		where = fmt.Sprintf(" (issuer %s)", state.Issuer)
	}
	var failed error
	if service.ShowServers(out, r, func() { failed = r.Await(ctx, name) }); failed != nil {
		return fmt.Errorf("logged in to %s%s, but the server does not work: %w; 'metarouter doctor' says what to do", name, where, failed)
	}
	server, _ := status.Named(r.Servers(), name)
	out.Note("Logged in to %s%s; it has %s.", name, where, console.Counted(server.Tools, "tool"))
	if err == nil && state.LoggedIn && !state.Renews {
		note := "note: the issuer gave no refresh token, so the login ends with its token"
		if !state.Expires.IsZero() {
			note += ", " + console.Until(state.Expires, time.Now())
		}
		out.Note("%s", note)
	}
	return nil
}

// showCode prints where a person enters which code.
func showCode(out *console.Console, p *login.Pending) {
	out.Note("Open this page on any device. If it asks for a code, enter the one below it:")
	out.Say("%s", p.URL)
	out.Say("%s", p.Device.UserCode)
	if p.URL != p.Device.URL {
		out.Note("The page for a code to type is %s", p.Device.URL)
	}
	out.Note("Waiting for you, %s; Ctrl-C gives up.", upTo(p.Expires))
}

// showPage prints where a person logs in, and opens the browser if that may be.
func showPage(out *console.Console, p *login.Pending, o Options) {
	missing := noBrowser(os.Getenv, runtime.GOOS)
	out.Note("Log in to %s: open this page in a browser:", p.Server)
	out.Say("%s", p.URL)
	switch {
	case o.Paste:
		out.Note("At the end, the browser may say that it can't show a page of 127.0.0.1 or localhost: that is right. Copy the URL of that page.")
	case missing != "":
		out.Note("The browser must run on this machine, but %s: run 'metarouter login %s --paste', or forward the port of the redirect_uri in the URL.", missing, commandline.Quote(p.Server))
	case !o.NoBrowser && console.IsTerminal(out.Streams[2]):
		if err := openBrowser(p.URL, os.Getenv); err != nil {
			out.Note("The browser can't be opened (%v); open the page yourself.", err)
		} else {
			out.Note("Your browser opens it now.")
		}
	}
	out.Note("Waiting for you, %s; Ctrl-C gives up.", upTo(p.Expires))
}

// awaitLogin waits for the person, who with paste also pastes the URL at which the browser ended.
func awaitLogin(ctx context.Context, out *console.Console, p *login.Pending, paste bool) error {
	if !paste {
		return p.Wait(ctx)
	}
	reading, stop := context.WithCancel(ctx)
	pasted := make(chan error, 1)
	go func() { pasted <- takePasted(reading, out, p) }()
	select {
	case <-p.Over.Done():
	case <-ctx.Done():
	case err := <-pasted:
		pasted = nil
		if err != nil {
			stop()
			return err
		}
	}
	stop()
	if pasted != nil && out.CanAsk() {
		<-pasted // the terminal is free again
	}
	return p.Wait(ctx)
}

// takePasted takes the lines of a person, or of stdin, where a read is left behind when the program ends, until one completes
// the login. It returns nil when that has ended otherwise, too.
func takePasted(ctx context.Context, out *console.Console, p *login.Pending) error {
	stdin := bufio.NewReader(io.LimitReader(out.In, maxPasted*maxPastedLine))
	read := func() (string, error) { return stdin.ReadString('\n') }
	if out.CanAsk() {
		read = func() (string, error) {
			return out.ReadLine(ctx, func() { out.Note("Paste the URL here, then press Enter:") })
		}
	}
	for range maxPasted {
		line, err := read()
		line = strings.TrimSpace(line)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, io.EOF) && line == "":
			return errors.New("stdin ended before the URL came; paste the URL at which the browser ended")
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("read the URL: %w", err)
		}
		err = p.Finish(ctx, line)
		if p.Over.Err() != nil || err == nil || ctx.Err() != nil {
			return nil // Wait says how it ended
		}
		out.Note("That does not complete the login: %s", console.Cut(plain.Line(err.Error()), 500))
	}
	return fmt.Errorf("%d pasted lines were not the URL at which the browser ended; begin again with 'metarouter login %s --paste'", maxPasted, commandline.Quote(p.Server))
}

// upTo says how long the login waits.
func upTo(expires time.Time) string {
	minutes := max(1, int(time.Until(expires).Round(time.Minute)/time.Minute))
	return "up to " + console.Counted(minutes, "minute")
}
