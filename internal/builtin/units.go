package builtin

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"sync"
)

// A unit is one way to measure a dimension: base = (value + offset) × scale,
// where base is in metres, kelvins or kilograms.
type unit struct {
	dimension     string
	scale, offset *big.Rat
}

// unitTable has a line for each unit: scale, offset, then its names, the symbol
// first. The scales are exact by definition (the SI, and the international yard
// and pound of 1959), so the arithmetic can be exact as well.
const unitTable = `
length
1e-9       0  nm, nanometre, nanometres, nanometer, nanometers
1e-6       0  µm, μm, um, micrometre, micrometres, micrometer, micrometers, micron, microns
0.0000254  0  mil, mils, thou
0.001      0  mm, millimetre, millimetres, millimeter, millimeters
0.01       0  cm, centimetre, centimetres, centimeter, centimeters
0.0254     0  in, inch, inches, ", ″
0.1        0  dm, decimetre, decimetres, decimeter, decimeters
0.3048     0  ft, foot, feet, ', ′
0.9144     0  yd, yds, yard, yards
1          0  m, metre, metres, meter, meters
1.8288     0  fathom, fathoms
201.168    0  furlong, furlongs
1000       0  km, kilometre, kilometres, kilometer, kilometers
1609.344   0  mi, mile, miles
1852       0  nmi, NM, nautical mile, nautical miles
1000000    0  Mm, megametre, megametres, megameter, megameters

temperature
1    273.15  C, celsius, centigrade
5/9  459.67  F, fahrenheit
1    0       K, kelvin, kelvins
5/9  0       R, rankine

mass
1e-9            0  µg, μg, ug, mcg, microgram, micrograms, microgramme, microgrammes
1e-6            0  mg, milligram, milligrams, milligramme, milligrammes
0.00006479891   0  gr, grain, grains
0.0002          0  ct, carat, carats
0.001           0  g, gram, grams, gramme, grammes
0.028349523125  0  oz, ounce, ounces
0.0311034768    0  ozt, oz t, troy ounce, troy ounces
0.45359237      0  lb, lbs, pound, pounds
1               0  kg, kgs, kilo, kilos, kilogram, kilograms, kilogramme, kilogrammes
6.35029318      0  st, stone, stones
907.18474       0  short ton, short tons, US ton, US tons
1000            0  t, tonne, tonnes, metric ton, metric tons, Mg, megagram, megagrams
1016.0469088    0  long ton, long tons, imperial ton, imperial tons
`

// convert returns the value in another unit, rounded once, at the end.
func convert(value float64, from, to string) (float64, error) {
	f, err := findUnit(from)
	if err != nil {
		return 0, err
	}
	t, err := findUnit(to)
	if err != nil {
		return 0, err
	}
	if f.dimension != t.dimension {
		return 0, fmt.Errorf("%q measures %s and %q measures %s; convert within one of: %s",
			from, f.dimension, to, t.dimension, units().known)
	}
	v := rat(strconv.FormatFloat(value, 'g', -1, 64)) // the decimal that was written, not its binary neighbour
	v.Mul(v.Add(v, f.offset), f.scale)
	if f.dimension == "temperature" && v.Sign() < 0 {
		return 0, fmt.Errorf("%v %s is below absolute zero (0 K, -273.15 °C, -459.67 °F)", value, from)
	}
	v.Sub(v.Quo(v, t.scale), t.offset)
	converted, _ := v.Float64()
	if math.IsInf(converted, 0) || converted == 0 && v.Sign() != 0 {
		return 0, fmt.Errorf("%v %s in %s is out of the range of a 64-bit floating-point number", value, from, to)
	}
	return converted, nil
}

// findUnit finds a unit by any of its names. A name in the case of the table wins (Mg is a megagram, mg a milligram); otherwise case does not matter.
func findUnit(name string) (unit, error) {
	spelled := strings.Join(strings.Fields(strings.NewReplacer("_", " ", "-", " ", ".", " ").Replace(name)), " ")
	all := units()
	if u, ok := all.exact[spelled]; ok {
		return u, nil
	}
	folded := strings.ToLower(spelled)
	if u, ok := all.folded[folded]; ok {
		return u, nil
	}
	// "°C", "deg C", "degrees Celsius", and "℃", which is one character.
	folded = strings.NewReplacer("℃", "°c", "℉", "°f").Replace(folded)
	for _, prefix := range []string{"°", "º", "degrees", "degree", "deg"} {
		rest, ok := strings.CutPrefix(folded, prefix)
		if u := all.folded[strings.TrimSpace(rest)]; ok && u.dimension == "temperature" {
			return u, nil
		}
	}
	if folded == "ton" || folded == "tons" {
		return unit{}, fmt.Errorf("%q is ambiguous: say tonne (1000 kg), short ton (2000 lb) or long ton (2240 lb)", name)
	}
	return unit{}, fmt.Errorf("unknown unit %q; known are, with their full names: %s", name, all.known)
}

type unitNames struct {
	exact  map[string]unit // by each name as in the table
	folded map[string]unit // by each name in lower case; one that is so in the table wins
	known  string          // "length (nm, µm, …), temperature (…), …"
}

// units is the table, read on first use.
var units = sync.OnceValue(func() unitNames {
	all := unitNames{exact: map[string]unit{}, folded: map[string]unit{}}
	var dimensions []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(unitTable), "\n\n") {
		dimension, rows, _ := strings.Cut(paragraph, "\n")
		var symbols []string
		for row := range strings.SplitSeq(rows, "\n") {
			fields := strings.Fields(row)
			u := unit{dimension, rat(fields[0]), rat(fields[1])}
			names := strings.Split(strings.Join(fields[2:], " "), ", ")
			symbols = append(symbols, names[0])
			for _, name := range names {
				all.exact[name] = u
				folded := strings.ToLower(name)
				if _, taken := all.folded[folded]; !taken || name == folded {
					all.folded[folded] = u
				}
			}
		}
		dimensions = append(dimensions, fmt.Sprintf("%s (%s)", dimension, strings.Join(symbols, ", ")))
	}
	all.known = strings.Join(dimensions, ", ")
	return all
})

// rat reads a finite decimal number or a fraction.
func rat(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("builtin: not a number: " + s)
	}
	return r
}
