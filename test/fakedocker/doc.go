//go:build unix

// Package fakedocker is a container engine for tests, with a client that behaves as docker's does
// where the process of a server is concerned. Containers are processes of the engine, which is a part
// of the test, so that they are no descendants of their client.
//
// # Behaviour
//
// run refuses a --cidfile that exists and a --name that is in use. Without -i the container has an
// empty stdin. The client passes SIGTERM on. If it is killed, its container loses its stdin, and goes
// on if it does not end at that. With --rm the engine removes a container that has ended; if the
// client is called nerdctl, the client does. stop sends SIGTERM and then SIGKILL. rm needs -f
// for a container that runs.
package fakedocker

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// ServeIfAsked plays the client and exits if this process was started by the link that [Client] has
// made. Otherwise it does nothing.
func ServeIfAsked() {
	if name := filepath.Base(os.Args[0]); slices.Contains([]string{"docker", "podman", "nerdctl"}, name) {
		os.Exit(client(name, os.Args[1:]))
	}
}

// Client returns the path of a client with a name. The test binary must call [ServeIfAsked] first.
func Client(t testing.TB, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}
