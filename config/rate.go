package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// A Rate is how many requests one client may make. The zero value is any number.
type Rate struct {
	PerSecond float64 // for long
	Burst     int     // at once
}

// units are those of time that a rate may be per, in any unambiguous spelling.
var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour,
}

// rate reads "100/s", "600/m" or "100/s burst 200"; "" is no limit. Without a burst
// that is what may come within a second, and at least one.
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
