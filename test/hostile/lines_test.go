//go:build linux

package hostile

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// lines are the hostile clients over stdio, who share the router with the honest one.
var lines = map[string]func(*visit){
	"noise": func(v *visit) {
		c := v.shake()
		for _, noise := range []string{"", "null", "7", "[]", "{", "{}", "\x00\x00", "\xff\xfe", `"x"`, strings.Repeat("x", 1<<20), strings.Repeat("\r", 1000), `{"jsonrpc":"2.0","id":1,"method":7}`} {
			c.SendLine(noise)
		}
		v.still(c)
		c.Kill()
	},
	"line without an end": func(v *visit) {
		c := v.stdio()
		go func() {
			for v.ctx.Err() == nil && c.SendRaw(strings.Repeat("x", 1<<20)) == nil {
			}
		}()
		v.rest()
		c.Kill()
	},
	"line nested 1,000,000 deep": func(v *visit) {
		c := v.shake()
		c.SendLine(rpc(1, "ping", nested("[", 1_000_000, "", "]")))
		c.SendLine(nested(`{"a":`, 1_000_000, "", "}"))
		v.still(c)
		c.Kill()
	},
	"batch of 100,000": func(v *visit) {
		c := v.shake()
		c.SendLine("[" + strings.Repeat(`{"jsonrpc":"2.0","id":"b","method":"ping"},`, 100_000) + `{"jsonrpc":"2.0","method":"x"}]`)
		v.still(c)
		c.Kill()
	},
	"answers never read": func(v *visit) {
		c := v.joinUnread()
		defer c.end()
		c.send(rpc(0, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`) + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
		for i := 1; v.ctx.Err() == nil; i++ {
			c.send(rpc(i, "tools/call", `{"name":"honest:echo","arguments":{"message":"`+strings.Repeat("x", 10_000)+`"}}`) + "\n")
		}
	},
	"requests before initialize": func(v *visit) {
		c := v.stdio()
		for i := range v.number(20_000) {
			c.SendLine(rpc(fmt.Sprintf(`"early%d"`, i), "tools/list", `{}`))
		}
		v.still(c)
		c.Kill()
	},
	"calls at once by the thousand": func(v *visit) {
		c := v.shake()
		for i := range v.number(20_000) {
			c.SendLine(rpc(fmt.Sprintf(`"c%d"`, i), "tools/call", `{"name":"honest:echo","arguments":{"message":"x"}}`))
		}
		c.Kill() // with the calls under way
	},
	"half a line, and the end": func(v *visit) {
		c := v.shake()
		c.SendRaw(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`)
		c.CloseInput()
		select {
		case <-c.Done:
		case <-time.After(patience):
			v.t.Error("serve still runs after the end of its stdin")
		}
	},
	"clients that come and go": func(v *visit) {
		v.repeat(4, func(i int) {
			c := v.stdio()
			if i%2 == 0 {
				c.Initialize(within(v.t, patience))
			}
			c.Kill()
		})
	},
	"subscriptions by the thousand": func(v *visit) {
		c := v.shake()
		for i := range v.number(20_000) {
			c.SendLine(rpc(fmt.Sprintf(`"s%d"`, i), "resources/subscribe", fmt.Sprintf(`{"uri":"honest://%d"}`, i)))
		}
		v.still(c)
		c.Kill()
	},
}

// An unread is a client's serve with a stdout that stays unread.
type unread struct {
	cmd *exec.Cmd
	in  *os.File
	out *os.File
}

func (v *visit) joinUnread() *unread {
	c := &unread{cmd: exec.Command(v.binary, "serve", "--config", v.config, "--data", v.data())}
	c.cmd.Dir = v.dir
	stdin, in, err := os.Pipe()
	expect.OK(v.t, err)
	out, stdout, err := os.Pipe()
	expect.OK(v.t, err)
	c.in, c.out, c.cmd.Stdin, c.cmd.Stdout = in, out, stdin, stdout
	expect.OK(v.t, c.cmd.Start())
	stdin.Close()
	stdout.Close()
	context.AfterFunc(v.ctx, func() { in.SetWriteDeadline(time.Now()) })
	return c
}

func (c *unread) send(s string) { io.WriteString(c.in, s) }

func (c *unread) end() {
	c.in.Close()
	c.cmd.Process.Kill()
	c.cmd.Wait()
	c.out.Close()
}
