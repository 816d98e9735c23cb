package session

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestTrail(t *testing.T) {
	for name, test := range map[string]struct {
		steps func(*Trail)
		want  []string
	}{
		"no answer yet":    {func(t *Trail) { t.Reached("a"); time.Sleep(2 * maxDelivery) }, nil},
		"written in time":  {func(t *Trail) { t.Answered("a"); t.Reached("b"); t.End(); time.Sleep(2 * maxDelivery) }, nil},
		"written too late": {func(t *Trail) { t.Answered("a"); t.Reached("b"); time.Sleep(2 * maxDelivery); t.End() }, []string{"b"}},
		"never taken":      {func(t *Trail) { t.Answered("a"); time.Sleep(5 * maxDelivery) }, []string{"a"}},
		"a question": {func(t *Trail) {
			t.Answered("a")
			t.Asks()
			time.Sleep(2 * maxDelivery)
			t.Answered("b")
			time.Sleep(2 * maxDelivery)
		}, []string{"b"}},
		"the client has left": {func(t *Trail) { t.End(); t.Answered("a"); time.Sleep(2 * maxDelivery) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var late []string
				test.steps(&Trail{Late: func(waitsFor string) { late = append(late, waitsFor) }})
				synctest.Wait()
				expect.List(t, late, test.want, "late")
			})
		})
	}
	var none *Trail
	none.Answered("")
	none.Reached("")
	none.Asks()
	none.End()
}
