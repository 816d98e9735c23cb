// Command demo draws the picture in the README: it runs the commands below in
// the project's folder, and writes what a terminal would show as an SVG.
//
//	go run ./docs/demo > docs/demo.svg
package main

import (
	"fmt"
	"html"
	"log"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

var commands = []string{
	`go run ./cmd/metarouter --config .mcp.json.example route "convert 5 kilometers to miles" --args '{"value": 5, "from_unit": "km", "to_unit": "mi"}'`,
	`metarouter search "hide e-mail addresses in a text" -k 1`,
	`metarouter call pii_redact text='Write to ada@example.com'`,
	`metarouter route "book a flight to Lisbon"; echo "exit code $?"`,
	`metarouter servers`,
}

const (
	columns    = 118
	charWidth  = 7.83
	lineHeight = 19
	margin     = 16
)

func main() {
	log.SetFlags(0)
	bin, err := os.MkdirTemp("", "demo")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(bin)
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "real"), "./cmd/metarouter").CombinedOutput(); err != nil {
		log.Fatalf("build: %v\n%s", err, out)
	}
	// In the picture the configuration and the data folder go without saying.
	wrapper := fmt.Sprintf("#!/bin/sh\nexec %s/real --config .mcp.json.example --data %s/data \"$@\"\n", bin, bin)
	if err := os.WriteFile(filepath.Join(bin, "metarouter"), []byte(wrapper), 0o755); err != nil {
		log.Fatal(err)
	}
	var lines []string
	for _, command := range commands {
		for i, part := range wrap(command, columns-2) {
			prompt := "$ "
			if i > 0 {
				prompt = "  "
			}
			lines = append(lines, `<tspan fill="#7ee787">`+prompt+`</tspan><tspan fill="#ffffff">`+html.EscapeString(part)+`</tspan>`)
		}
		cmd := exec.Command("sh", "-c", command)
		cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			log.Fatalf("%s: %v\n%s", command, err, out)
		}
		for line := range strings.Lines(string(out)) {
			for _, part := range wrap(strings.TrimRight(line, "\n"), columns) {
				lines = append(lines, html.EscapeString(part))
			}
		}
		lines = append(lines, "")
	}
	draw(lines[:len(lines)-1])
}

// wrap cuts a line into parts of at most n runes.
func wrap(line string, n int) []string {
	var parts []string
	runes := []rune(line)
	for len(runes) > n {
		parts, runes = append(parts, string(runes[:n])), runes[n:]
	}
	return append(parts, string(runes))
}

func draw(lines []string) {
	width, height := int(math.Ceil(columns*charWidth))+2*margin, len(lines)*lineHeight+2*margin
	fmt.Printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" role="img" aria-label="A terminal session with metarouter">`+"\n", width, height, width)
	fmt.Printf(`<rect width="%d" height="%d" rx="8" fill="#0d1117"/>`+"\n", width, height)
	fmt.Println(`<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13" fill="#c9d1d9" xml:space="preserve">`)
	for i, line := range lines {
		fmt.Printf(`<text x="%d" y="%d">%s</text>`+"\n", margin, margin+13+i*lineHeight, line)
	}
	fmt.Println("</g>\n</svg>")
}
