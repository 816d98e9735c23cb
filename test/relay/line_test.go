//go:build linux

package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestEnvelope(t *testing.T) {
	for line, want := range map[string][3]string{ // id, method, name of the tool
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b","arguments":{"x":[1,"]}"]}}}`:              {`1`, `"tools/call"`, `"a__b"`},
		`{"method":"tools/call","params":{"arguments":{"name":"no","y":"\\\"}"},"name":"a__b"},"jsonrpc":"2.0","id":"i"}`: {`"i"`, `"tools/call"`, `"a__b"`},
		`{"jsonrpc":"2.0","id":7,"result":{"id":8}}`:                                                                      {`7`},
		`{ "result" : {"id":8} , "id" : 7 }`:                                                                              {`7 `},
		`{"method":"notifications/initialized"}`:                                                                          {``, `"notifications/initialized"`},
		`no message`:                                                                                                      {},
		`{"id":1,"method":"x","params`:                                                                                    {`1`, `"x"`},
		``:                                                                                                                {},
	} {
		m := envelope([]byte(line))
		got := [3]string{string(m.id), string(m.method)}
		if m.params > 0 {
			from, to := member([]byte(line), m.params, "name")
			got[2] = line[from:to]
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

func TestReadLines(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"", "a", strings.Repeat("long", 100_000), "b"}
	go func() {
		w.WriteString(strings.Join(want, "\n") + "\nunfinished")
		w.Close()
	}()
	var got []string
	readLines(r, func(line []byte) { got = append(got, string(line)) })
	if !slices.Equal(got, want) {
		t.Errorf("got %d lines of %d", len(got), len(want))
	}
}
