// Command demo records the terminal session in docs/commands.md: it runs the commands
// below in the project's folder, notes when each line is printed, and writes an SVG that
// shows the lines at these times.
//
//	go run ./docs/demo > docs/demo.svg
package main

import (
	"bufio"
	"errors"
	"fmt"
	"html"
	"log"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

var commands = []string{
	`metarouter doctor --config broken.mcp.json`,
	`metarouter route "convert 5 kilometers to miles" --args '{"value": 5, "from_unit": "km", "to_unit": "mi"}'`,
	`metarouter search "does this JSON fit its schema?" -k 1`,
	`metarouter call jsonschema_validate data=7.5 schema='{"type": "integer"}'`,
	`metarouter route "book a flight to Lisbon"; echo "exit code $?"`,
	`metarouter servers`,
}

// broken is the configuration for the doctor.
const broken = `{ "mcpServers": {
  "utilities": { "command": "metarouter", "args": ["builtin", "utilities"] },
  "browser": { "command": "nxp", "args": ["-y", "@playwright/mcp"] },
  "github": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"], "env": { "GITHUB_PERSONAL_ACCESS_TOKEN": "${GITHUB_TOKEN}" } }
} }`

const (
	columns    = 118
	charWidth  = 7.83
	lineHeight = 19
	margin     = 16

	typing  = 700 * time.Millisecond  // before a command is there
	reading = 900 * time.Millisecond  // after its last line
	longest = 1500 * time.Millisecond // the longest wait for a line in the picture
)

// A line is a line of the screen as SVG, and the time at which it appears.
type line struct {
	at   time.Duration
	text string
}

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
	// The picture shows neither the configuration nor the data folder.
	wrapper := fmt.Sprintf(`#!/bin/sh
case "$*" in
*broken.mcp.json) exec %[1]s/real doctor --config %[1]s/broken.mcp.json --data %[1]s/data2 ;;
*) exec %[1]s/real --config .mcp.json.example --data %[1]s/data "$@" ;;
esac
`, bin)
	for path, text := range map[string]string{"metarouter": wrapper, "broken.mcp.json": broken} {
		if err := os.WriteFile(filepath.Join(bin, path), []byte(text), 0o755); err != nil {
			log.Fatal(err)
		}
	}
	var lines []line
	var now time.Duration
	for _, command := range commands {
		now += typing
		for i, part := range wrap(command, columns-2) {
			prompt := "$ "
			if i > 0 {
				prompt = "  "
			}
			lines = append(lines, line{now, `<tspan fill="#7ee787">` + prompt + `</tspan><tspan fill="#ffffff">` + html.EscapeString(part) + `</tspan>`})
		}
		record(command, bin, func(waited time.Duration, text string) {
			now += min(waited, longest)
			text = strings.ReplaceAll(text, bin+"/", "")
			for _, part := range wrap(text, columns) {
				lines = append(lines, line{now, html.EscapeString(part)})
			}
		})
		now += reading
		lines = append(lines, line{now, ""})
	}
	draw(lines[:len(lines)-1])
}

// record runs a command, and calls printed for each line of its output, with the time
// since the line before.
func record(command, bin string, printed func(waited time.Duration, text string)) {
	cmd := exec.Command("sh", "-c", "exec 2>&1; "+command)
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		log.Fatalf("%s: %v", command, err)
	}
	last := time.Now()
	for read := bufio.NewScanner(out); read.Scan(); last = time.Now() {
		printed(time.Since(last), read.Text())
	}
	// The doctor's exit code is 1 if something is wrong.
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		log.Fatalf("%s: %v", command, err)
	}
}

// wrap cuts a line into parts of at most n runes, between words. Each part has the
// line's indentation.
func wrap(line string, n int) []string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	var parts []string
	runes := []rune(line)
	for len(runes) > n {
		cut := n
		for cut > n/2 && runes[cut] != ' ' {
			cut--
		}
		parts, runes = append(parts, string(runes[:cut])), append([]rune(indent), []rune(strings.TrimLeft(string(runes[cut:]), " "))...)
	}
	return append(parts, string(runes))
}

// draw writes the lines as an SVG in which each line appears at its time and stays. A
// reader who prefers no motion sees all lines at once.
func draw(lines []line) {
	width, height := int(math.Ceil(columns*charWidth))+2*margin, len(lines)*lineHeight+2*margin
	fmt.Printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" role="img" aria-label="A terminal session with metarouter">`+"\n", width, height, width)
	fmt.Println("<style>text { white-space: pre; animation: come 1ms backwards } @keyframes come { from { opacity: 0 } } @media (prefers-reduced-motion: reduce) { text { animation: none } }</style>")
	fmt.Printf(`<rect width="%d" height="%d" rx="8" fill="#0d1117"/>`+"\n", width, height)
	fmt.Println(`<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13" fill="#c9d1d9">`)
	for i, l := range lines {
		if l.text != "" {
			fmt.Printf(`<text x="%d" y="%d" style="animation-delay:%.1fs">%s</text>`+"\n", margin, margin+13+i*lineHeight, l.at.Seconds(), l.text)
		}
	}
	fmt.Println("</g>\n</svg>")
}
