package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestRate(t *testing.T) {
	for said, want := range map[string]Rate{
		`""`:                               {},
		`"100/s"`:                          {PerSecond: 100, Burst: 100},
		`"600/m"`:                          {PerSecond: 10, Burst: 10},
		`"30 / minute"`:                    {PerSecond: 0.5, Burst: 1},
		`"36/h"`:                           {PerSecond: 0.01, Burst: 1},
		`"2.5/s"`:                          {PerSecond: 2.5, Burst: 3},
		`"100/s burst 200"`:                {PerSecond: 100, Burst: 200},
		`" 1 / Sec  Burst 1 "`:             {PerSecond: 1, Burst: 1},
		`"100"`:                            {PerSecond: -1, Burst: 0},
		`100`:                              {PerSecond: -1, Burst: 0},
		`"0/s"`:                            {PerSecond: -1, Burst: 0},
		`"-1/s"`:                           {PerSecond: -1, Burst: 0},
		`"NaN/s"`:                          {PerSecond: -1, Burst: 0},
		`"Inf/s"`:                          {PerSecond: -1, Burst: 0},
		`"1/day"`:                          {PerSecond: -1, Burst: 0},
		`"1/s burst"`:                      {PerSecond: -1, Burst: 0},
		`"1/s burst 0"`:                    {PerSecond: -1, Burst: 0},
		`"1/s burst 1 burst 2"`:            {PerSecond: -1, Burst: 0},
		`"1/s burst 99999999999999999999"`: {PerSecond: -1, Burst: 0},
	} {
		c := anyText(t, fmt.Sprintf(`{"metarouter": {"http": {"rate": %s}}}`, said))
		if want.PerSecond < 0 {
			if len(c.Problems) != 1 || c.Files != nil {
				t.Errorf("%s: %+v, %v", said, c.Router.HTTP.Rate, c.Problems)
			}
			continue
		}
		if len(c.Problems) > 0 || c.Router.HTTP.Rate != want {
			t.Errorf("%s: %+v, want %+v; %v", said, c.Router.HTTP.Rate, want, c.Problems)
		}
	}
}

// A mistake about TLS must not have us serve without.
func TestTLSFiles(t *testing.T) {
	for said, want := range map[string]string{
		`"tlsCert": "a"`:                         "need each other",
		`"tlsKey": "a"`:                          "need each other",
		`"tlsCert": "${NOT_SET}", "tlsKey": "a"`: "NOT_SET",
		`"tlsCert": 1, "tlsKey": 2`:              "must be a string",
	} {
		c := anyText(t, "{\"metarouter\": {\n\"http\": {"+said+"}}}")
		if len(c.Problems) > 0 && c.Problems[0].Line != 2 {
			t.Errorf("%s: said of line %d", said, c.Problems[0].Line)
		}
		if len(c.Problems) == 0 || !strings.Contains(c.Problems[0].Message, want) {
			t.Errorf("%s: %v", said, c.Problems)
		}
		if h := c.Router.HTTP; c.Files != nil && h.TLSCert == "" && h.TLSKey == "" {
			t.Errorf("%s: nothing is left of it", said)
		}
	}
}
