package openai

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Whatever an endpoint sends, a call has a result that can be sent on, and what was
// handed out is the beginning of the answer.
func FuzzAnswer(f *testing.F) {
	f.Add(delta("a") + "\n\n" + finished + "\n\n" + used + "\n\n" + done + "\n\n")
	f.Add(`data: {"choices":[{"index":0,"message":{"content":[{"text":"a"},{"text":7}]},"finish_reason":"length"}],"usage":7}` + "\n\n")
	f.Add(`data: {"error":"no"}` + "\n\n")
	f.Add(`data: {"error":{"code":7,"message":"\ud800"}}` + "\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		said := ""
		a := &answer{model: "m", limit: 1000, onText: func(text string) { said += text }}
		err := a.readStream(strings.NewReader(in))
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

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "NaN": 0, "1e99": 0, "soon": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}
