package natsserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/internal/address"
)

// patience is how long a test waits for a server. It is long because CI machines are slow.
const patience = 90 * time.Second

// Options are of a server, or of all servers of a cluster. The zero value has JetStream and lets
// everyone in.
type Options struct {
	NoJetStream bool
	MaxPayload  int    // bytes; 0 is NATS's default of 1 MiB
	Users       []User // empty: clients need not log in
	TLS         *TLS   // nil: no TLS
	Extra       string // further lines of the configuration file
}

// A User may log in, with a password or by an nkey.
type User struct {
	Name, Password string
	NKey           string // the public key; Name and Password are "" then

	// Subjects that the user may not publish to and subscribe to; empty permits all.
	DenyPublish, DenySubscribe []string
}

// TLS has the PEM files of a server.
type TLS struct {
	Cert, Key string
	ClientCA  string // clients need a certificate of this authority; "" is no authority
}

// A Server is a NATS server, which runs until the test ends, or Kill.
type Server struct {
	t    testing.TB
	name string
	dir  string
	opts Options

	client, monitor, route string   // addresses
	routes                 []string // addresses of others

	mu      sync.Mutex // guards the following
	process *exec.Cmd
	ended   chan struct{}
}

// Start starts a server and waits until it can be used. More than one Options is an error.
func Start(t testing.TB, options ...Options) *Server {
	t.Helper()
	s := newServer(t, "solo", only(t, options))
	t.Cleanup(s.cleanup)
	s.Restart()
	return s
}

func only(t testing.TB, options []Options) Options {
	t.Helper()
	switch len(options) {
	case 0:
		return Options{}
	case 1:
		return options[0]
	}
	t.Fatal("natsserver takes at most one Options")
	return Options{}
}

func newServer(t testing.TB, name string, o Options) *Server {
	t.Helper()
	return &Server{t: t, name: name, dir: t.TempDir(), opts: o, client: free(t), monitor: free(t), route: free(t)}
}

func free(t testing.TB) string {
	t.Helper()
	free, err := address.Free()
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// URL is where clients connect to. It has no credentials.
func (s *Server) URL() string {
	if s.opts.TLS != nil {
		return "tls://" + s.client
	}
	return "nats://" + s.client
}

// Address is the host and port of URL.
func (s *Server) Address() string { return s.client }

// Kill ends the server at once, as SIGKILL does.
func (s *Server) Kill() {
	s.t.Helper()
	if process, ended := s.running(); process != nil {
		process.Process.Kill()
		<-ended
	}
}

// Restart starts the server with the data that it had. If it runs, Restart ends it before, in order.
// It returns when the server can be used, in a cluster when there is a leader.
func (s *Server) Restart() {
	s.t.Helper()
	s.interrupt()
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
	s.ready()
}

// interrupt ends the server in order.
func (s *Server) interrupt() {
	process, ended := s.running()
	if process == nil {
		return
	}
	terminate(process.Process)
	select {
	case <-ended:
	case <-time.After(patience):
		process.Process.Kill()
		<-ended
	}
}

// running returns the process, nil without one.
func (s *Server) running() (*exec.Cmd, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil, nil
	}
	select {
	case <-s.ended:
		return nil, nil
	default:
		return s.process, s.ended
	}
}

// start starts the process.
func (s *Server) start() error {
	file := filepath.Join(s.dir, "nats.conf")
	if err := os.WriteFile(file, []byte(s.configuration()), 0o600); err != nil {
		return err
	}
	program, err := program()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	process := exec.Command(program, "-c", file)
	process.Stdout, process.Stderr = log, log
	process.SysProcAttr = attributes()
	if err := process.Start(); err != nil {
		return fmt.Errorf("start nats-server: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		process.Wait()
		close(ended)
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process, s.ended = process, ended
	return nil
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

// environment is that of the tests before one sets another HOME, in which the go command would have no
// cache.
var environment = os.Environ()

// program returns the path of the nats-server of go.mod, which the go command builds if need be.
var program = sync.OnceValues(func() (string, error) {
	command := exec.Command("go", "tool", "-n", "nats-server")
	flags := slices.DeleteFunc(strings.Fields(os.Getenv("GOFLAGS")), func(flag string) bool { return flag == "-race" })
	command.Env = append(slices.Clone(environment), "GOFLAGS="+strings.Join(flags, " ")) // one build for all tests
	out, err := command.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return "", fmt.Errorf("go tool -n nats-server: %w: %s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
})

// configuration returns the text of the configuration file.
func (s *Server) configuration() string {
	var b strings.Builder
	fmt.Fprintf(&b, "server_name: %s\nlisten: %q\nhttp: %q\n", s.name, s.client, s.monitor)
	if !s.opts.NoJetStream {
		fmt.Fprintf(&b, "jetstream { store_dir: %q }\n", filepath.ToSlash(filepath.Join(s.dir, "jetstream")))
	}
	if s.opts.MaxPayload > 0 {
		fmt.Fprintf(&b, "max_payload: %d\n", s.opts.MaxPayload)
	}
	if len(s.opts.Users) > 0 {
		b.WriteString("authorization { users: [\n")
		for _, u := range s.opts.Users {
			b.WriteString(u.configuration())
		}
		b.WriteString("] }\n")
	}
	if c := s.opts.TLS; c != nil {
		fmt.Fprintf(&b, "tls { cert_file: %q, key_file: %q", c.Cert, c.Key)
		if c.ClientCA != "" {
			fmt.Fprintf(&b, ", ca_file: %q, verify: true", c.ClientCA)
		}
		b.WriteString(" }\n")
	}
	if len(s.routes) > 0 {
		// Servers reach each other by the routes here alone, which can be cut; clients by the URLs
		// that a test gives them.
		fmt.Fprintf(&b, "cluster { name: test, listen: %q, no_advertise: true, advertise: \"127.0.0.1:1\", routes: [", s.route)
		for _, route := range s.routes {
			fmt.Fprintf(&b, "%q, ", "nats-route://"+route)
		}
		b.WriteString("] }\n")
	}
	return b.String() + s.opts.Extra + "\n"
}

func (u *User) configuration() string {
	var b strings.Builder
	if u.NKey != "" {
		fmt.Fprintf(&b, "  { nkey: %s", u.NKey)
	} else {
		fmt.Fprintf(&b, "  { user: %q, password: %q", u.Name, u.Password)
	}
	fmt.Fprintf(&b, ", permissions: { publish: { allow: \">\"%s }, subscribe: { allow: \">\"%s } } }\n", deny(u.DenyPublish), deny(u.DenySubscribe))
	return b.String()
}

func deny(subjects []string) string {
	if len(subjects) == 0 {
		return ""
	}
	return fmt.Sprintf(", deny: [%s]", strings.Join(quoted(subjects), ", "))
}

func quoted(texts []string) (all []string) {
	for _, text := range texts {
		all = append(all, strconv.Quote(text))
	}
	return all
}

// ready waits until the server can be used.
func (s *Server) ready() {
	s.t.Helper()
	_, ended := s.running()
	for deadline := time.Now().Add(patience); !s.healthy(); time.Sleep(25 * time.Millisecond) {
		select {
		case <-ended:
			s.t.Fatalf("nats-server %s has ended", s.name)
		default:
		}
		if ended == nil || time.Now().After(deadline) {
			s.t.Fatalf("nats-server %s does not get ready", s.name)
		}
	}
}

// healthy reports whether the server serves, and JetStream too if it has it, which in a cluster
// needs a leader.
func (s *Server) healthy() bool {
	if !s.opts.NoJetStream && len(s.routes) > 0 && s.leader("") == "" {
		return false // and the log says nothing of it
	}
	var health struct {
		Status string `json:"status"`
	}
	return s.monitored("/healthz", &health) == nil && health.Status == "ok"
}

var client = http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// monitored gets a page of the server's monitoring.
func (s *Server) monitored(path string, into any) error {
	answer, err := client.Get("http://" + s.monitor + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return json.NewDecoder(answer.Body).Decode(into)
}

// leader returns the name of the server that leads a stream, or all of JetStream if stream is "";
// "" if this server knows of no leader.
func (s *Server) leader(stream string) string {
	type cluster struct {
		Leader string `json:"leader"`
	}
	var state struct {
		Meta     cluster `json:"meta_cluster"`
		Accounts []struct {
			Streams []struct {
				Name    string  `json:"name"`
				Cluster cluster `json:"cluster"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if s.monitored("/jsz?accounts=1&streams=1", &state) != nil {
		return ""
	}
	if stream == "" {
		return state.Meta.Leader
	}
	for _, account := range state.Accounts {
		for _, s := range account.Streams {
			if s.Name == stream {
				return s.Cluster.Leader
			}
		}
	}
	return ""
}

// cleanup ends the server, and shows its log if the test failed.
func (s *Server) cleanup() {
	s.Kill()
	if s.t.Failed() {
		log, _ := os.ReadFile(s.log())
		s.t.Logf("the log of nats-server %s ends with:\n%s", s.name, log[max(0, len(log)-4096):])
	}
}

// Stop halts the process of the server, as SIGSTOP does, until Continue. It skips the test where
// the system has no such thing.
func (s *Server) Stop() {
	s.t.Helper()
	if process, _ := s.running(); process != nil {
		suspend(s.t, process.Process)
	}
}

// Continue ends Stop.
func (s *Server) Continue() {
	s.t.Helper()
	if process, _ := s.running(); process != nil {
		resume(s.t, process.Process)
	}
}
