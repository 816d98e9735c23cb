//go:build linux

package hostile

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// guarded is what restricts the clients of the file that the slips change: without a token none is
// let in, and clients without a profile see no server.
const guarded = `"metarouter": {"http": {"tokens": ["` + token + `"], "allowedHosts": ["good.example"]}, "profiles": {"default": {"servers": []}}}`

// slips are texts instead of others in the file, each a mistake about what restricts.
var slips = [][2]string{
	{`"metarouter": {`, `"Metarouter": {`}, {`"metarouter": {`, `"meta-router": {`}, {guarded, `"metarouter": 7`}, {guarded, `"metarouter": null`},
	{guarded, `"metarouter": [{}]`}, {guarded, guarded + `, "metarouter": {}`}, {`"http": {`, `"Http": {`}, {`"http": {`, `"http": 7, "x": {`}, {`"http": {`, `"http": null, "x": {`},
	{`"tokens": [`, `"Tokens": [`}, {`"tokens": [`, `"token": [`}, {`"tokens": [`, `"tokens": null, "x": [`}, {`"tokens": [`, `"tokens": {}, "x": [`}, {`"metarouter": {"http": {`, `"http": {"http": {`},
	{`"profiles": {`, `"Profiles": {`}, {`"profiles": {`, `"profile": {`}, {`"profiles": {`, `"profiles": [], "x": {`}, {`"default": {`, `"Default": {`}, {`"default": {`, `"defualt": {`},
	{`"default": {`, `"default": null, "x": {`}, {`"servers": []`, `"server": []`}, {`"servers": []`, `"servers": null`}, {`"servers": []`, `"servers": {}`},
	{`"allowedHosts": ["good`, `"allowedHosts": ["good.example"], "allowedHosts": ["evil`}, {`"mcpServers":{`, `"mcpServers": 7, "x": {`}, {`"mcpServers":{`, `"mcpServers": null, "x": {`},
}

// A slip lets no client in that was not let in before, neither when the file is edited nor at the
// start, and hides no server that was there.
func TestSlips(t *testing.T) {
	t.Parallel()
	r := prepare(t, nil)
	base, err := os.ReadFile(r.config)
	if err != nil {
		t.Fatal(err)
	}
	good := strings.TrimSuffix(string(base), "}") + ", " + guarded + "}"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(r.config+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(r.config+".new", r.config); err != nil {
			t.Fatal(err)
		}
	}
	begin := func() {
		r.address = mcptest.FreeAddress(t)
		r.process = mcptest.Start(t, r.binary, []string{"serve", "--http", r.address, "--config", r.config, "--data", r.data()}, r.dir, nil)
	}
	v := &visit{router: r}
	list := func(header map[string]string) reply {
		return v.request("POST", "/mcp/tools/list", header, strings.NewReader("{}"))
	}
	asAdmin := map[string]string{"Authorization": "Bearer " + token}
	// closed checks that no more is open than with the good file.
	closed := func(slip string) {
		t.Helper()
		for what, got := range map[string]int{
			"/mcp without a token":      list(nil).status,
			"/metrics without a token":  v.request("GET", "/metrics", nil, nil).status,
			"a restart without a token": v.request("POST", "/dashboard/servers/honest/restart", nil, strings.NewReader("{}")).status,
		} {
			if got != http.StatusUnauthorized {
				t.Errorf("%s: the status of %s is %d", slip, what, got)
			}
		}
		if got := list(map[string]string{"Host": "evil.example", "Authorization": "Bearer " + token}).status; got != http.StatusForbidden {
			t.Errorf("%s: the status for another host is %d", slip, got)
		}
		if got := list(asAdmin); strings.Contains(got.body, "honest__") || got.status != http.StatusOK && got.status != http.StatusUnauthorized {
			t.Errorf("%s: with a token without a profile: %d %.300s", slip, got.status, got.body)
		}
	}
	write(good)
	begin()
	mcptest.Listening(t, r.address)
	closed("the good file")
	for i, s := range slips {
		text := strings.Replace(good, s[0], s[1], 1)
		if text == good {
			t.Fatalf("%s is not in the file", s[0])
		}
		write(strings.Repeat("\n", i+1) + text) // each in a line of its own, which the log names
		mcptest.WaitFor(t, "the router to read "+s[1], func() bool { return strings.Contains(r.process.Stderr(), fmt.Sprintf("%s:%d:", r.config, i+2)) })
		closed(s[1])
		if strings.Contains(s[1], "mcpServers") && !slices.ContainsFunc(mcptest.PIDs(t, r.pids()), mcptest.Alive) {
			t.Errorf("%s has stopped the server", s[1])
		}
		write(good)
		mcptest.WaitFor(t, "the good file to be in use again", func() bool { return list(asAdmin).status == http.StatusOK })
	}
	r.end()

	refused := 0
	for _, s := range slips {
		write(strings.Replace(good, s[0], s[1], 1))
		begin()
		mcptest.WaitFor(t, "the router to start or to end", func() bool {
			select {
			case <-r.process.Done:
				return true
			case <-time.After(20 * time.Millisecond):
				return v.request("GET", "/health", nil, nil).status != 0
			}
		})
		select {
		case <-r.process.Done:
		default:
			closed("at the start, " + s[1])
			r.end()
			continue
		}
		if refused++; r.process.Cmd.ProcessState.ExitCode() != 2 || !strings.Contains(r.process.Stderr(), r.config+":1:") {
			t.Errorf("at the start, %s: %v, %s", s[1], r.process.Cmd.ProcessState, r.log())
		}
	}
	t.Logf("%d slips, in a live file and at the start; %d files were refused", len(slips), refused)
}
