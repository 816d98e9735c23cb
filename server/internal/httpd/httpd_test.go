package httpd

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A full stream loses notifications, and no question unheard.
func TestStandingStreamIsFull(t *testing.T) {
	s := newStream("0")
	s.standing = true
	note, question := []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}`), []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	for range maxStandingMessages {
		s.Send(note)
	}
	for i := range maxStandingMessages {
		expect.OK(t, s.Send(question), "question %d", i)
	}
	if err := s.Send(question); err == nil {
		t.Error("a question was lost in silence")
	}
	expect.OK(t, s.Send(note))
	if messages, first, more, _ := s.after(0); !more || len(messages) != maxStandingMessages || first != maxStandingMessages+1 {
		t.Errorf("%d events from %d on, %v", len(messages), first, more)
	}
	s.wrote(maxStandingMessages + 1)
	expect.OK(t, s.Send(question), "no room, though one was read")
}

// Of the events that were written, the last ones are kept.
func TestKeptEvents(t *testing.T) {
	s := newStream("1")
	for range 5 {
		expect.OK(t, s.Send(make([]byte, maxKeptOpen*2/5)))
	}
	s.wrote(3)
	for number, want := range map[int]bool{-1: false, 0: false, 1: true, 3: true, 5: true, 6: false} {
		expect.Equal(t, s.keeps(number), want, "keeps what follows %d", number)
	}
	if messages, first, _, _ := s.after(1); len(messages) != 4 || first != 2 {
		t.Errorf("%d events from %d on", len(messages), first)
	}
	s.wrote(5)
	s.wrote(2)
	if s.log.kept > maxKeptOpen || s.log.unread != 0 || !s.keeps(3) || s.keeps(2) {
		t.Errorf("%d bytes are kept, %d unread", s.log.kept, s.log.unread)
	}
}

// A session keeps the streams that ended last within its bounds, and those that are in use.
func TestKeptStreams(t *testing.T) {
	s := &httpSession{standing: newStream("0"), all: new(atomic.Int64)}
	one := func(end func(*stream)) {
		st := s.newStream()
		s.keep(st)
		end(st)
		s.trim()
	}
	kept := func() (names []string) {
		for i := range s.lastStream {
			if st, _, ok := s.find(strconv.Itoa(i+1) + "_0"); ok {
				names = append(names, st.name)
			}
		}
		return names
	}
	picture := func(st *stream) {
		st.conclude(make([]byte, maxKept*2/5))
		st.wrote(1) // which is not to say that the client has got it
	}
	one(func(*stream) {}) // its call goes on
	one(func(st *stream) {
		st.attach(new(attachment))
		st.conclude(make([]byte, maxKept))
	})
	for range 3 {
		one(picture)
	}
	one(func(st *stream) { st.conclude(make([]byte, maxKept+1)) })
	one(func(st *stream) { st.conclude([]byte("short")) })
	expect.List(t, kept(), []string{"1", "2", "4", "5", "7"}, "kept")
	for range 2 * maxKeptStreams {
		one(func(st *stream) { st.conclude(nil) })
	}
	if names := kept(); len(names) != maxKeptStreams+2 || names[1] != "2" {
		t.Errorf("%d streams are kept: %v", len(names), names)
	}
}

// Many sessions share what is kept, so that none takes another one's room.
func TestStreamsOfManySessions(t *testing.T) {
	s := &httpSession{standing: newStream("0"), all: new(atomic.Int64)}
	s.all.Store(1000)
	for range 10 {
		st := s.newStream()
		s.keep(st)
		st.conclude(make([]byte, maxAllKept/5000))
		st.wrote(1)
		s.trim()
		if _, _, ok := s.find(st.eventID(0)); !ok {
			t.Error("the last stream can't be resumed")
		}
	}
	expect.Equal(t, len(s.streams), 5, "streams that are kept")
}

// What the HTTP headers say of a trace counts where the message says nothing of it.
func TestTraceInHeaders(t *testing.T) {
	const parent, others = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-11111111111111111111111111111111-2222222222222222-01"
	header := http.Header{"Traceparent": {parent}, "Tracestate": {"a=1"}, "Baggage": {"b=2"}}
	for _, tt := range []struct {
		params string
		header http.Header
		want   string
	}{
		{`{"name":"x"}`, http.Header{}, `{"name":"x"}`},
		{`{"name":"x"}`, header, `{"name":"x","_meta":{"traceparent":"` + parent + `","tracestate":"a=1","baggage":"b=2"}}`},
		{``, header, `{"_meta":{"traceparent":"` + parent + `","tracestate":"a=1","baggage":"b=2"}}`},
		{`null`, http.Header{"Baggage": {"b=2"}}, `{"_meta":{"baggage":"b=2"}}`},
		{`{"_meta":{"traceparent":"` + others + `"}}`, header, `{"_meta":{"traceparent":"` + others + `","baggage":"b=2"}}`},
		{`{"_meta":{"traceparent":"` + others + `","baggage":"c=3"}}`, header, `{"_meta":{"traceparent":"` + others + `","baggage":"c=3"}}`},
		{`{"_meta":{"traceparent":"no","tracestate":"c=3"}}`, header, `{"_meta":{"traceparent":"` + parent + `","tracestate":"a=1","baggage":"b=2"}}`},
		{`{"name":"x"}`, http.Header{"Traceparent": {"no"}, "Tracestate": {"a=1"}}, `{"name":"x"}`},
		{`{}`, http.Header{"Traceparent": {parent, others}}, `{}`},
		{`{}`, http.Header{"Traceparent": {parent}, "Tracestate": {"a=1", "c=3"}}, `{"_meta":{"traceparent":"` + parent + `","tracestate":"a=1,c=3"}}`},
		{`{"_meta":[]}`, header, `{"_meta":[]}`},
		{`[1]`, header, `[1]`},
	} {
		m := wire.Message{Method: "tools/call"}
		if tt.params != "" {
			m.Params = []byte(tt.params)
		}
		got := string(traced(tt.header, conversation.Read(m)).Params)
		if session.TraceIn(wire.Member([]byte(got), "_meta")) != session.TraceIn(wire.Member([]byte(tt.want), "_meta")) || len(got) != len(tt.want) {
			t.Errorf("%s with %v: got %s, want %s", tt.params, tt.header, got, tt.want)
		}
	}
}

// A closing handler says so in every style.
func TestPlainWhileClosing(t *testing.T) {
	methods := map[string]conversation.Method{"tools/list": {}}
	clients := conversation.New(conversation.Options{Methods: methods, Log: zap.NewNop(), Budget: budget.Clients()})
	b := &Backend{Clients: clients}
	h := New(&Backends{
		Of:  func(...string) (*Backend, bool) { return b, true },
		All: func() []*Backend { return nil },
		Log: zap.NewNop(),
	}, Options{})
	h.work.drain(t.Context())
	defer h.Close(context.Background())
	for path, want := range map[string]string{"/mcp": `{"jsonrpc":"2.0","id":1,"error":{"code":-32603`, "/mcp/tools/list": `{"error":{"code":-32603`} {
		q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path, strings.NewReader(`{"id":1,"method":"tools/list"}`))
		q.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, q)
		if w.Code != http.StatusServiceUnavailable || !strings.HasPrefix(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
