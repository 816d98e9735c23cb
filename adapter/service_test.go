package adapter

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/play"
)

// An offering is a server of another node that offers one tool.
type offering struct{ server, service, tool string }

func (o offering) session() *pairSession {
	return &pairSession{offer: clusternode.Offer{Info: session.Info{Capabilities: json.RawMessage(`{"tools":{}}`)}, Tools: []json.RawMessage{[]byte(`{"name":"` + o.tool + `","inputSchema":{"type":"object"},"description":"<x>"}`)}}}
}

func (o offering) learn(t *testing.T, others *services) {
	t.Helper()
	expect.OK(t, others.Learn(t.Context(), config.Server{Name: o.server, Service: o.service}, o.session()))
}

// Which servers of other nodes the catalog has, under which names, and which are replicas.
func TestServicesInCatalog(t *testing.T) {
	entry := func(name, service string) config.Server {
		s := fake(name)
		s.Service = service
		return s
	}
	for _, tt := range []struct {
		name   string
		own    config.Server // which has the tool "echo"
		others []offering
		ids    string
		of     map[string]string
	}{
		{"one", config.Server{}, []offering{{"gpu@a", "graphics", "echo"}}, "graphics:echo", map[string]string{"gpu@a": "graphics"}},
		{"two", config.Server{}, []offering{{"gpu@a", "gpu", "echo"}, {"gpu@b", "gpu", "echo"}}, "gpu:echo", map[string]string{"gpu@a": "gpu", "gpu@b": "gpu"}},
		{"another service", config.Server{}, []offering{{"gpu@a", "gpu", "echo"}, {"gpu@b", "cpu", "echo"}, {"gpu@c", "", "echo"}}, "cpu:echo gpu:echo gpu@c:echo", map[string]string{"gpu@a": "gpu", "gpu@b": "cpu"}},
		{"other definitions", config.Server{}, []offering{{"gpu@b", "gpu", "echo"}, {"gpu@a", "gpu", "other"}}, "gpu:echo gpu@a:other", map[string]string{"gpu@b": "gpu"}},
		{"no name of a service", config.Server{}, []offering{{"gpu@a", "x@a", "echo"}}, "gpu@a:echo", nil},
		{"with an own one", entry("own", "gpu"), []offering{{"gpu@a", "gpu", "echo"}}, "own:echo", map[string]string{"gpu@a": "own"}},
		{"other definitions than the own one", entry("own", "gpu"), []offering{{"gpu@a", "gpu", "other"}, {"gpu@b", "gpu", "echo"}}, "gpu@a:other own:echo", map[string]string{"gpu@b": "own"}},
		{"the name is taken", entry("gpu", ""), []offering{{"gpu@a", "gpu", "echo"}}, "gpu:echo gpu@a:echo", nil},
		{"the name is taken by another service", entry("gpu", "other"), []offering{{"gpu@a", "gpu", "echo"}}, "gpu:echo gpu@a:echo", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c config.Config
			if tt.own.Name != "" {
				c.Servers = append(c.Servers, tt.own)
			}
			r := New(c, Options{Play: play.Server, Log: zap.NewNop()})
			defer r.Close()
			others := r.members.services
			if tt.own.Name != "" {
				expect.OK(t, r.writer.Learn(t.Context(), tt.own, offering{tool: "echo"}.session()))
			}
			own := idsOf(r)
			for _, o := range tt.others {
				o.learn(t, others)
			}
			expect.Equal(t, idsOf(r), tt.ids, "the catalog")
			if got := r.members.services.grouping().of; !maps.Equal(got, tt.of) {
				t.Errorf("replicas: %v, want %v", got, tt.of)
			}
			gone := func(when string) {
				if got := idsOf(r); got != own || others.now.Load() != nil {
					t.Errorf("after %s the catalog has %s, before %s", when, got, own)
				}
			}
			for _, o := range tt.others {
				others.Forget(o.server)
			}
			gone("all are gone")
			for _, o := range tt.others {
				o.learn(t, others)
			}
			others.clear()
			gone("the router left the cluster")
		})
	}
}

// The name of a service stays while its replicas come, go and change one after the other.
func TestServiceKeepsItsName(t *testing.T) {
	r := New(config.Config{}, Options{Play: play.Server, Log: zap.NewNop()})
	defer r.Close()
	others := r.members.services
	for i, step := range []struct {
		learn, forget offering
		want          string
	}{
		{learn: offering{"gpu@b", "gpu", "v1"}, want: "gpu:v1"},
		{learn: offering{"gpu@a", "gpu", "v1"}, want: "gpu:v1"},
		{learn: offering{"gpu@b", "gpu", "v2"}, want: "gpu:v1 gpu@b:v2"},
		{learn: offering{"gpu@a", "gpu", "v2"}, want: "gpu:v2"},
		{forget: offering{server: "gpu@b"}, want: "gpu:v2"},
		{learn: offering{"gpu@a", "", "v2"}, want: "gpu@a:v2"},
		{learn: offering{"gpu@a", "gpu", "v2"}, want: "gpu:v2"},
		{forget: offering{server: "gpu@a"}, want: ""},
	} {
		if step.learn.server != "" {
			step.learn.learn(t, others)
		} else {
			others.Forget(step.forget.server)
		}
		expect.Equal(t, idsOf(r), step.want, "step %d", i)
	}
}

// Definitions are equal however they are written and ordered.
func TestSumOfItems(t *testing.T) {
	list := func(items ...string) (all []json.RawMessage) {
		for _, item := range items {
			all = append(all, json.RawMessage(item))
		}
		return all
	}
	same := sumOfItems(list(`{"name":"a<"}`, `{"name":"b"}`), nil)
	expect.Equal(t, sumOfItems(list(`{"name":"b"}`, `{ "name":"a\u003c" }`), list()), same, "the same definitions have other sums")
	for _, other := range [][][]json.RawMessage{
		{list(`{"name":"a<"}`), list(`{"name":"b"}`)}, {list(`{"name":"a<"}`, `{"name":"c"}`), nil}, {list(`{"name":"a<"}`), nil},
	} {
		if sumOfItems(other...) == same {
			t.Errorf("%s has the same sum", other)
		}
	}
}

func TestDescribe(t *testing.T) {
	g := &grouping{
		services: map[string]*execute.Service{"gpu": {}, "own": {Own: "own"}},
		of:       map[string]string{"x@a": "gpu", "x@b": "gpu", "y@a": "own"}, problems: map[string]string{"x@c": "it differs"},
	}
	var got []string
	for _, one := range g.describe([]status.Status{{Name: "x@a", State: status.Failed}, {Name: "x@b", State: status.Ready}, {Name: "x@c"}, {Name: "y@a"}}) {
		got = append(got, fmt.Sprintf("%s %s %s%s", one.Name, one.State, one.Doing, one.LastError))
	}
	want := []string{"gpu ready ", "x@a failed it takes calls of gpu", "x@b ready it takes calls of gpu", "x@c  it is not used as a service: it differs", "y@a  it takes calls of own"}
	expect.List(t, got, want)
}
