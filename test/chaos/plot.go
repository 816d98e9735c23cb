//go:build linux

package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A panel is one diagram of the plot. It has a value for each sample except the first.
type panel struct {
	title, color string
	value        func(before, now sample) float64
}

var panels = []panel{
	{"calls answered rightly, per second", "#1b7837", rate(func(t tally) int { return t.Right })},
	{"calls failed for a named reason, per second", "#c2410c", rate(func(t tally) int { return t.Failed })},
	{"resident memory of all routers, MB", "#2563eb", func(_, now sample) float64 { return float64(now.memory) / (1 << 20) }},
	{"open descriptors of all routers", "#7c3aed", func(_, now sample) float64 { return float64(now.files) }},
	{"server processes", "#475569", func(_, now sample) float64 { return float64(now.count[servers]) }},
}

// rate returns the growth of a count per second.
func rate(count func(tally) int) func(before, now sample) float64 {
	return func(before, now sample) float64 {
		return float64(count(now.calls)-count(before.calls)) / (now.at - before.at).Seconds()
	}
}

// The dimensions of the plot, in pixels.
const (
	plotWidth, left, right             = 860, 60, 20
	panelHeight, titleHeight, panelGap = 90, 24, 16
	footHeight                         = 34
)

// plot returns an SVG of the samples over time.
func plot(samples []sample) string {
	height := len(panels)*(titleHeight+panelHeight+panelGap) + footHeight
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#334155">`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", plotWidth, height)
	if len(samples) > 1 {
		last := samples[len(samples)-1].at
		for i, p := range panels {
			p.draw(&b, i*(titleHeight+panelHeight+panelGap), samples, last)
		}
		timeAxis(&b, height-footHeight-panelGap, last)
	}
	return b.String() + "</svg>\n"
}

// draw draws the panel with its upper edge at y.
func (p panel) draw(b *strings.Builder, y int, samples []sample, last time.Duration) {
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", left, y+16, p.title)
	var values []float64
	highest := 1.0
	for i := 1; i < len(samples); i++ {
		v := p.value(samples[i-1], samples[i])
		values = append(values, v)
		highest = max(highest, v)
	}
	step := roundStep(highest / 3)
	top := math.Ceil(highest/step) * step
	bottom := float64(y + titleHeight + panelHeight)
	height := func(v float64) float64 { return bottom - v/top*panelHeight }
	for v := 0.0; v <= top; v += step {
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#e2e8f0"/><text x="%d" y="%.1f" text-anchor="end">%g</text>`+"\n",
			left, height(v), plotWidth-right, left-6, height(v)+4, v)
	}
	var points strings.Builder
	for i, v := range values {
		fmt.Fprintf(&points, "%.1f,%.1f ", across(samples[i+1].at, last), height(v))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", strings.TrimSpace(points.String()), p.color)
}

// timeAxis draws the times below the last panel.
func timeAxis(b *strings.Builder, y int, last time.Duration) {
	unit, name := time.Second, "seconds"
	if last > 5*time.Minute {
		unit, name = time.Minute, "minutes"
	}
	all := float64(last) / float64(unit)
	for v, step := 0.0, roundStep(all/8); v <= all; v += step {
		x := across(time.Duration(v*float64(unit)), last)
		fmt.Fprintf(b, `<path d="M%.1f %dv5" stroke="#94a3b8"/><text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n", x, y, x, y+18, v)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", plotWidth-right, y+34, name)
}

// across returns the horizontal position of a time.
func across(at, last time.Duration) float64 {
	return left + float64(at)/float64(last)*(plotWidth-left-right)
}

// roundStep returns the smallest of 1, 2, 5, 10, 20 … that is not below v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v {
			return m * power
		}
	}
	return 10 * power
}
