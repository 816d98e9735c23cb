// Package schemas has schemas of tools that are made to hurt their readers: each is within the
// bounds that discovery puts on a definition (1 MiB, 100 levels), and costs much where a program
// follows references, nests loops or repeats what it reads.
//
// Only test files of the product import it.
package schemas

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is how large the largest of the schemas are about.
const Size = 900_000

// Hostile returns hostile schemas of a tool's arguments, by what is hostile in them.
func Hostile() map[string]string {
	all := map[string]string{
		"doubling allOf":       doubling(`"allOf":[#ref,#ref]`),
		"doubling anyOf":       doubling(`"anyOf":[#ref,#ref]`),
		"doubling oneOf":       doubling(`"oneOf":[#ref,#ref]`),
		"doubling properties":  doubling(`"type":"object","required":["a","b"],"properties":{"a":#ref,"b":#ref}`),
		"doubling items":       doubling(`"type":"array","minItems":10,"items":#ref`),
		"refers to itself":     `{"type":"object","allOf":[{"$ref":"#"},{"$ref":"#"}],"properties":{"a":{"$ref":"#/properties/a"}},"required":["a"]}`,
		"chain of references":  `{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + filled(`"d#n":{"$ref":"#/$defs/d#m"}`) + `}}`,
		"deep":                 `{"type":"object","required":["a"],"properties":{"a":` + strings.Repeat(`{"required":["a"],"properties":{"a":{"type":"object","anyOf":[`, 22) + "{}" + strings.Repeat("]}}}", 22) + `}}`,
		"deep and wide":        `{"type":"object","properties":{"a":` + strings.Repeat(`{"x-mcp-header":"A","items":{"allOf":[`, 30) + `{"enum":[` + filled(`"v#n"`) + `]}` + strings.Repeat("]}}", 30) + `}}`,
		"many properties":      `{"type":"object","properties":{` + filled(`"p#n":{}`) + `}}`,
		"many choices":         `{"type":"object","required":["a"],"properties":{"a":{"enum":[` + filled(`"v#n"`) + `]}}}`,
		"many branches":        `{"type":"object","anyOf":[` + filled(`{"required":["r#n"]}`) + `]}`,
		"many schemas for one": `{"type":"object","allOf":[` + filled(`{"properties":{"a":{"description":"`+strings.Repeat("x", 200)+`#n"}}}`) + `]}`,
		"one name many times":  `{"type":"object","properties":{` + filled(`"p":{}`) + `}}`,
		"a long name":          `{"type":"object","required":["` + strings.Repeat("x", Size/2) + `"],"properties":{"` + strings.Repeat("x", Size/2) + `":{"type":"string"}}}`,
		"a long description":   `{"type":"object","properties":{"a":{"description":"` + strings.Repeat("aB c. ", Size/6) + `"}}}`,
		"a long type":          `{"type":"object","properties":{"a":{"type":"` + strings.Repeat("x", Size) + `"}}}`,
		"a long default":       `{"type":"object","required":["a"],"properties":{"a":{"default":"` + strings.Repeat("x", Size) + `"}}}`,
		"a long reference":     `{"type":"object","required":["a"],"properties":{"a":{"allOf":[{"$ref":"#` + strings.Repeat("/a", Size/2) + `"}]}}}`,
		"annotated":            `{"type":"object","properties":{` + filled(`"p#n":{"type":"string","x-mcp-header":"H#n"}`) + `}}`,
	}
	half := Size / 2
	all["many required"] = `{"type":"object","required":[` + upTo(half, `"p#n"`) + `],"properties":{` + upTo(half, `"p#n":{"type":"string"}`) + `}}`
	fat := `{"properties":{"a":{"type":"string"}},` + upTo(half, `"k#n":1`) + `}`
	all["no branches"] = `{"type":"object","properties":{"a":{"anyOf":[` + filled("1") + `]}}}`
	all["required as in draft 3"] = `{"type":"object","properties":{` + filled(`"p#n":{"required":true}`) + `}}`
	all["patterns of names"] = `{"type":"object","patternProperties":{` + upTo(half/3, `"(?=a#n)":{}`) + `}}`
	all["identifiers"] = `{"type":"object","properties":{` + upTo(half, `"p#n":{"$id":"a#n"}`) + `},"$defs":{` + upTo(half, `"d#n":{"$ref":"#/x"}`) + `}}`
	all["names of definitions"] = `{"type":"object","properties":{` + upTo(half, `"p#n":{"anyOf":[{}],"items":{"$ref":"#/properties/p#n/anyOf/0"}}`) + `},"$defs":{"0":{},` + upTo(half, `"schema#n":{}`) + `}}`
	all["references to themselves"] = `{"type":"object","$defs":{` + filled(`"d#n":{"$ref":"#/$defs/d#n"}`) + `}}`
	all["many references to much"] = `{"type":"object","allOf":[` + upTo(half, `{"$ref":"#/$defs/fat"}`) + `],"$defs":{"fat":` + fat + `}}`
	all["required references to much"] = `{"type":"object","required":[` + upTo(half/20, `"p#n"`) + `],"properties":{` + upTo(half/20, `"p#n":{"$ref":"#/$defs/a/b/c/fat"}`) +
		`},"$defs":{"a":{"b":{"c":{"x":{` + upTo(half, `"k#n":1`) + `},"fat":` + `{"type":"object"}` + `}}}}}`
	return all
}

// doubling returns a schema of 30 definitions, each of which refers to the one before twice.
func doubling(keyword string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"type":"object",%s,"$defs":{"a0":{"type":"string"}`, strings.ReplaceAll(keyword, "#ref", `{"$ref":"#/$defs/a30"}`))
	for i := 1; i <= 30; i++ {
		fmt.Fprintf(&b, `,"a%d":{%s}`, i, strings.ReplaceAll(keyword, "#ref", fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i-1)))
	}
	return b.String() + "}}"
}

func filled(format string) string { return upTo(Size, format) }

// upTo returns as many texts, with commas between them, as have the size. #n is the number of a
// text, and #m the next one's.
func upTo(size int, format string) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(format, "#n", strconv.Itoa(i)), "#m", strconv.Itoa(i+1)))
	}
	return b.String()
}
