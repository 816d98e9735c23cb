package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// A Rate limits the requests of one client. The zero value is no limit.
type Rate struct {
	PerSecond float64 // on average
	Burst     int     // at once
}

// units are the units of time in a rate, by their spellings.
var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour,
}

// rate reads "100/s", "600/m" or "100/s burst 200"; "" is no limit. The default burst is the
// number of requests of one second, and at least one.
func rate(v hujson.Value) (Rate, error) {
	s, err := text(v)
	if err != nil || strings.TrimSpace(s) == "" {
		return Rate{}, err
	}
	bad := errors.New(`must be a rate; write it like "100/s", "600/m" or "100/s burst 200"`)
	said, burst, hasBurst := strings.Cut(strings.ToLower(s), "burst")
	count, per, ok := strings.Cut(said, "/")
	unit := units[strings.TrimSpace(per)]
	n, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
	if !ok || unit == 0 || err != nil || !(n > 0 && n <= 1e9) {
		return Rate{}, bad
	}
	r := Rate{PerSecond: n / unit.Seconds()}
	r.Burst = int(math.Ceil(r.PerSecond))
	if hasBurst {
		if r.Burst, err = strconv.Atoi(strings.TrimSpace(burst)); err != nil || r.Burst < 1 {
			return Rate{}, bad
		}
	}
	return r, nil
}
