package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestRate(t *testing.T) {
	for said, want := range map[string]Rate{
		`""`:                               {},
		`"100/s"`:                          {100, 100},
		`"600/m"`:                          {10, 10},
		`"30 / minute"`:                    {0.5, 1},
		`"36/h"`:                           {0.01, 1},
		`"2.5/s"`:                          {2.5, 3},
		`"100/s burst 200"`:                {100, 200},
		`" 1 / Sec  Burst 1 "`:             {1, 1},
		`"100"`:                            {-1, 0},
		`100`:                              {-1, 0},
		`"0/s"`:                            {-1, 0},
		`"-1/s"`:                           {-1, 0},
		`"NaN/s"`:                          {-1, 0},
		`"Inf/s"`:                          {-1, 0},
		`"1/day"`:                          {-1, 0},
		`"1/s burst"`:                      {-1, 0},
		`"1/s burst 0"`:                    {-1, 0},
		`"1/s burst 1 burst 2"`:            {-1, 0},
		`"1/s burst 99999999999999999999"`: {-1, 0},
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
