package daemon

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The form stays as it is: a router and the processes of its clients may be of different versions.
func TestGreeting(t *testing.T) {
	sent := greeting{
		Client: Client{Program: "p 1", Profile: "work", Only: []string{"a", "b"}, LogLevel: "info", Folder: "/f", Environ: []string{"A=1", "B=\xff&="}},
		Terms:  Terms{"user": "7"}, Text: "t",
	}
	sent.View.Mode, sent.View.Names, sent.View.FindTools = "direct", "prefixed", true
	form := sent.values().Encode()
	expect.Equal(t, form, "find=true&folder=%2Ff&level=info&mode=direct&names=prefixed&only=a&only=b&profile=work&program=p+1&"+
		"term+user=7&text=t&variable=A%3D1&variable=B%3D%FF%26%3D")
	q := httptest.NewRequest("PUT", "/log", strings.NewReader(form))
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	got, err := readGreeting(httptest.NewRecorder(), q)
	expect.OK(t, err)
	expect.Deep(t, got, sent)
	q = httptest.NewRequest("PUT", "/log", strings.NewReader("text="+strings.Repeat("x", maxJoin)))
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	_, err = readGreeting(httptest.NewRecorder(), q)
	expect.Error(t, err, "too large")
}

// A host that ends between both requests of a client does not refuse the client: another host may serve it. A second
// request to join with the id of a client that has joined does not remove that client.
func TestJoinAtTheEnd(t *testing.T) {
	h := &Host{clients: map[string]chan net.Conn{"here": make(chan net.Conn, 1)}}
	for i, id := range []string{"gone", "here", "here"} {
		w := httptest.NewRecorder()
		h.join(w, httptest.NewRequest("POST", "/join?client="+id, nil))
		expect.Equal(t, w.Code == http.StatusServiceUnavailable, i != 1, "request %d is refused", i)
		expect.Equal(t, len(h.clients), 1, "clients after request %d", i)
	}
}
