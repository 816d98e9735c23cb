package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// firsts returns the first candidates of tasks of an origin, and kind unless it is "".
func firsts(all []verdict, origin string, is func(kind string) bool) (some []verdict) {
	for _, v := range all {
		if v.first && v.origin == origin && is(v.kind) {
			some = append(some, v)
		}
	}
	return some
}

func anyKind(string) bool       { return true }
func withTool(kind string) bool { return kind != kindNone }
func noTool(kind string) bool   { return kind == kindNone }

// calibrationError is the expected calibration error of the confidence, over ten bins of
// equal weight.
func calibrationError(some []verdict) (off float64) {
	slices.SortStableFunc(some, func(a, b verdict) int { return cmp.Compare(a.confidence, b.confidence) })
	total := 0.0
	for _, v := range some {
		total += v.weight
	}
	var bins [10]float64
	before := 0.0
	for _, v := range some {
		bins[min(9, int(10*before/total))] += v.weight * (v.confidence - v.right)
		before += v.weight
	}
	for _, b := range bins {
		off += math.Abs(b) / total
	}
	return off
}

// loss is the mean logarithmic loss of the confidence.
func loss(some []verdict) float64 {
	sum, total := 0.0, 0.0
	for _, v := range some {
		p := v.confidence
		if v.right == 0 {
			p = 1 - p
		}
		sum -= v.weight * math.Log(max(p, 1e-4))
		total += v.weight
	}
	return sum / total
}

// refused is the share of tasks that are refused below a threshold. The weights of tasks count
// but for natural ones, which count the same.
func refused(some []verdict, threshold float64) float64 {
	sum, total := 0.0, 0.0
	for _, v := range some {
		weight := v.weight
		if v.origin == fromNatural {
			weight = 1
		}
		total += weight
		if v.confidence < threshold {
			sum += weight
		}
	}
	return sum / max(total, 1e-12)
}

var origins = []string{fromNatural, fromCorpora, fromSmall, fromSynthetic, fromStray}

// printReliability prints how far the confidence can be trusted, and what thresholds refuse.
func printReliability(title string, all []verdict) {
	fmt.Printf("%s\n%-20s %6s %6s %6s\n", title, "", "ECE", "alone", "loss")
	for _, o := range origins {
		some := firsts(all, o, anyKind)
		fmt.Printf("%-20s %6.3f %6.3f %6.3f\n", o, calibrationError(some), calibrationError(firsts(all, o, withTool)), loss(some))
	}
	kinds := make(map[string]bool)
	for _, v := range firsts(all, fromNatural, anyKind) {
		kinds[v.kind] = true
	}
	for _, threshold := range []float64{0.05, 0.1, 0.15, 0.2, 0.22, 0.24, 0.25, 0.3, 0.4, 0.5} {
		fmt.Printf("refused below %.2f:", threshold)
		for _, kind := range sortedKeys(kinds) {
			fmt.Printf(" %s %.3f", kind, refused(firsts(all, fromNatural, func(k string) bool { return k == kind }), threshold))
		}
		for _, o := range origins[1:] {
			fmt.Printf("; %s %.3f, none %.3f", o, refused(firsts(all, o, withTool), threshold), refused(firsts(all, o, noTool), threshold))
		}
		fmt.Println()
	}
}

// printInputs prints what each input of the confidence is worth: how much the loss grows
// without it.
func printInputs(all []verdict, use []int, names []string) {
	judge(all, use)
	natural, corpora := loss(firsts(all, fromNatural, anyKind)), loss(firsts(all, fromCorpora, anyKind))
	fmt.Println("without an input of the confidence: loss of natural tasks, of corpora")
	for _, i := range use {
		if i == numInputs-1 {
			continue
		}
		judge(all, slices.DeleteFunc(slices.Clone(use), func(k int) bool { return k == i }))
		fmt.Printf("  %-20s %+.4f %+.4f\n", names[i], loss(firsts(all, fromNatural, anyKind))-natural, loss(firsts(all, fromCorpora, anyKind))-corpora)
	}
}
