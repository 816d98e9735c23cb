package fakeserver

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

// OnlyEra returns a command that starts a server of both eras over stdio and restricts it
// to one era: the request that would open the other, server/discover or initialize, is
// answered as an unknown method. The program must call [ServeIfAsked], as for [Command].
func OnlyEra(era, command string, args ...string) (string, []string) {
	self, flags := Command("-only-era", era, command)
	return self, append(flags, args...)
}

// relay starts the command, passes lines in both directions and returns the exit code.
func relay(era string, command []string) int {
	refused := map[string]string{"legacy": "server/discover", "modern": "initialize"}[era]
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		systemProcess().fail(1, "%v", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		systemProcess().fail(1, "%v", err)
	}
	if err := cmd.Start(); err != nil {
		systemProcess().fail(1, "%v", err)
	}
	var stdout sync.Mutex // serializes lines
	write := func(line []byte) {
		stdout.Lock()
		defer stdout.Unlock()
		os.Stdout.Write(line)
	}
	go func() {
		defer in.Close()
		eachLine(bufio.NewReader(os.Stdin), func(line []byte) {
			var m protocol.Message
			if json.Unmarshal(line, &m) == nil && m.Method == refused && m.ID != nil {
				write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`+"\n", m.ID))
				return
			}
			in.Write(line)
		})
	}()
	eachLine(bufio.NewReader(out), write)
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

func eachLine(r *bufio.Reader, f func(line []byte)) {
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			f(line)
		}
		if err != nil {
			return
		}
	}
}
