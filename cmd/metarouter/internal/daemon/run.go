package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// A Command is what a process asks a running router to carry out.
type Command struct {
	Program string   // which program asks: one of another build may know other commands
	Args    []string // of the command line, after the program's name
	Input   string   // the arguments that it has read already, from a file or stdin
	Columns int      // of its terminal, on which it prints what is answered; 0 for no limit
	Colours bool     // whether its terminal shows colours
	Asks    bool     // whether it can ask its person about a call
	Agreed  string   // the question to which its person has agreed
}

// An Outcome is the output and exit code of a command.
type Outcome struct {
	Stdout, Stderr []byte
	Code           int // with which the program exits

	// Question is what a person is to be asked first; "" for none. The command was not carried
	// out, and can be sent again with the question as Agreed.
	Question string
}

// maxCommand bounds a command, in bytes.
const maxCommand = 64 << 20

// Commands has run carry out the commands of processes of the same program, at
// POST /run.
func Commands(mux *http.ServeMux, program string, run func(context.Context, Command) Outcome) {
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, q *http.Request) {
		var c Command
		if err := json.NewDecoder(http.MaxBytesReader(w, q.Body, maxCommand)).Decode(&c); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if c.Program != program {
			http.Error(w, "the running router is another build of the program", http.StatusConflict)
			return
		}
		json.NewEncoder(w).Encode(run(q.Context(), c))
	})
}

// Run has the newest running router of the place that can, or all of them, carry out
// the command; of all, the last one's outcome counts. ok is false if none did. A
// router that ends before it has answered is an error, since it may have carried
// out the command.
func Run(ctx context.Context, p Place, c Command, all bool) (o Outcome, ok bool, err error) {
	for _, socket := range p.sockets("") {
		answer, err := ask(ctx, socket, c)
		switch {
		case errors.Is(err, errUnable):
			continue
		case err != nil:
			return o, true, err
		}
		o, ok = answer, true
		if !all {
			break
		}
	}
	return o, ok, nil
}

// errUnable says that a router has not carried out a command.
var errUnable = errors.New("the running router can't carry out this command")

func ask(ctx context.Context, socket string, c Command) (o Outcome, err error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial(ctx, socket)
		},
	}}
	body, err := json.Marshal(c)
	if err != nil {
		return o, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://router/run", bytes.NewReader(body))
	if err != nil {
		return o, err
	}
	answer, err := client.Do(q)
	if err != nil {
		if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
			return o, errUnable
		}
		return o, fmt.Errorf("ask the running router: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return o, fmt.Errorf("%w: %s", errUnable, strings.TrimSpace(string(text)))
	}
	if err := json.NewDecoder(answer.Body).Decode(&o); err != nil {
		return o, fmt.Errorf("ask the running router: %w", err)
	}
	return o, nil
}

// dial connects with a router of this user.
func dial(ctx context.Context, socket string) (net.Conn, error) {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	if err := checkPeer(c, os.Geteuid()); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
