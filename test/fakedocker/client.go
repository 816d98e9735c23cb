//go:build unix

package fakedocker

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// refused is the status with which the client ends if there is no container.
const refused = 125

// A request is a request of the client to the engine. For run, the container's stdin comes after it.
type request struct {
	Verb    string
	ID      string
	Args    []string // of the client
	Command []string
	Name    string
	Labels  []string
	Stdin   bool
	Remove  bool
	Force   bool
	Seconds int
	Signal  syscall.Signal
}

// An answer is a part of the engine's answer.
type answer struct {
	ID    string
	Out   []byte
	Err   []byte
	Ended bool // the last answer
	Code  int
	Error string
}

// client does what the command line says, and returns the exit status.
func client(name string, args []string) int {
	global := flag.NewFlagSet(name, flag.ExitOnError)
	global.String("context", "", "")
	global.Parse(args)
	rest := global.Args()
	if len(rest) > 0 && rest[0] == "container" {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return refused
	}
	r := request{Verb: rest[0], Args: args}
	f := flag.NewFlagSet(r.Verb, flag.ExitOnError)
	var idFile string
	f.StringVar(&idFile, "cidfile", "", "")
	f.StringVar(&r.Name, "name", "", "")
	f.BoolVar(&r.Stdin, "i", false, "")
	f.BoolVar(&r.Remove, "rm", false, "")
	f.BoolVar(&r.Force, "f", false, "")
	f.Bool("v", false, "")
	f.IntVar(&r.Seconds, "t", 10, "")
	f.Func("label", "", func(s string) error { r.Labels = append(r.Labels, s); return nil })
	f.Parse(rest[1:])
	if r.Verb != "run" {
		r.ID = f.Arg(0)
		return ask(r, func(answer) {})
	}
	if _, err := os.Lstat(idFile); err == nil {
		fmt.Fprintf(os.Stderr, "%s: container ID file found, make sure the other container isn't running or delete %s\n", name, idFile)
		return refused
	}
	byClient := r.Remove && name == "nerdctl"
	r.Remove = r.Remove && !byClient
	r.Command = f.Args()[1:] // after the image
	id := ""
	code := ask(r, func(a answer) {
		if a.ID == "" {
			return
		}
		id = a.ID
		if err := os.WriteFile(idFile, []byte(id), 0o600); err != nil && idFile != "" {
			fmt.Fprintln(os.Stderr, err)
		}
		terminated := make(chan os.Signal, 1)
		signal.Notify(terminated, syscall.SIGTERM)
		go func() {
			for range terminated {
				ask(request{Verb: "kill", ID: id, Signal: syscall.SIGTERM}, func(answer) {})
			}
		}()
	})
	if byClient && id != "" {
		ask(request{Verb: "rm", ID: id}, func(answer) {})
	}
	return code
}

// ask sends the request, and copies what the container reads and prints. It returns the exit status.
func ask(r request, made func(answer)) int {
	conn, err := net.Dial("unix", strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "docker: Cannot connect to the Docker daemon:", err)
		return refused
	}
	defer conn.Close()
	json.NewEncoder(conn).Encode(r)
	for answers := json.NewDecoder(conn); ; {
		var a answer
		if err := answers.Decode(&a); err != nil {
			fmt.Fprintln(os.Stderr, "docker:", err)
			return refused
		}
		if a.Error != "" {
			fmt.Fprintln(os.Stderr, "docker: Error response from daemon:", a.Error)
			return max(a.Code, 1)
		}
		if a.Ended {
			return a.Code
		}
		if a.ID != "" {
			made(a)
			go func() {
				if r.Stdin {
					io.Copy(conn, os.Stdin)
				}
				conn.(*net.UnixConn).CloseWrite()
			}()
		}
		os.Stdout.Write(a.Out)
		os.Stderr.Write(a.Err)
	}
}
