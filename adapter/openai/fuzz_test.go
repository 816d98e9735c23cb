package openai

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// For every response a call has a valid result, and the parts that were passed on are the beginning
// of the answer.
func FuzzAnswer(f *testing.F) {
	f.Add(delta("a") + "\n\n" + finished + "\n\n" + used + "\n\n" + done + "\n\n")
	f.Add(`data: {"choices":[{"index":0,"message":{"content":[{"text":"a"},{"text":7}]},"finish_reason":"length"}],"usage":7}` + "\n\n")
	f.Add(`data: {"error":"no"}` + "\n\n")
	f.Add(`data: {"error":{"code":7,"message":"\ud800"}}` + "\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		said := ""
		a := &answer{model: "m", limit: 1000, onText: func(text string) { said += text }}
		err := a.read(&http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(in))})
		result := a.result(1)
		if err != nil {
			if result, err = a.failed(err, 2); err != nil {
				if said != "" {
					t.Errorf("others may be asked (%v) though %q was handed out", err, said)
				}
				return
			}
		}
		if !json.Valid(result) || said != a.text.String() {
			t.Errorf("%s, of which %q was handed out", result, said)
		}
	})
}
