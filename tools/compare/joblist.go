//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// shortJobs are jobs of published servers with few calls.
var shortJobs = []job{{
	name: "read a note", calls: 1,
	task:  "What does note.txt say?",
	files: map[string]string{"note.txt": "The meeting is on Tuesday at ten.\n"},
	tools: map[string]string{"filesystem:read_text_file": "read a text file"},
	play: func(p *player) string {
		return p.turn(at("read_text_file", map[string]any{"path": filepath.Join(p.dir, "note.txt")}))[0]
	},
	scripts: []string{`return (await call("filesystem:read_text_file", {path: "DIR/note.txt"})).content;`},
	want:    "The meeting is on Tuesday at ten.\n",
}, {
	name: "count errors in a log", calls: 1,
	task:  "How many lines of app.log are errors?",
	files: map[string]string{"app.log": logOf(400)},
	tools: map[string]string{"filesystem:read_text_file": "read a text file"},
	play: func(p *player) string {
		text := p.turn(at("read_text_file", map[string]any{"path": filepath.Join(p.dir, "app.log")}))[0]
		return fmt.Sprint(strings.Count(text, " ERROR "))
	},
	scripts: []string{`const { content } = await call("filesystem:read_text_file", {path: "DIR/app.log"});
return String(content.split("\n").filter(line => line.includes(" ERROR ")).length);`},
	want: "57",
}, {
	name: "note two facts", calls: 2,
	task:  "Remember that Ada wrote the parser and has left for Berlin, and check that it is stored.",
	tools: map[string]string{"memory:create_entities": "remember a person", "memory:search_nodes": "search the knowledge graph"},
	play: func(p *player) string {
		p.turn(toolCall{"memory", "create_entities", map[string]any{"entities": []any{map[string]any{
			"name": "Ada", "entityType": "person", "observations": []string{"wrote the parser", "has left for Berlin"}}}}})
		found := p.turn(toolCall{"memory", "search_nodes", map[string]any{"query": "Ada"}})[0]
		return fmt.Sprint(strings.Contains(found, "has left for Berlin"))
	},
	scripts: []string{`await call("memory:create_entities", {entities: [{name: "Ada", entityType: "person", observations: ["wrote the parser", "has left for Berlin"]}]});
const found = await call("memory:search_nodes", {query: "Ada"});
return String(found.entities[0].observations.includes("has left for Berlin"));`},
	want: "true",
}, {
	name: "add four amounts", calls: 3,
	task:  "Add 12, 30, 8 and 51 with the tool.",
	tools: map[string]string{"everything:get-sum": "add two numbers"},
	play: func(p *player) string {
		sum := "12"
		for _, next := range []string{"30", "8", "51"} {
			sum = ends.FindString(p.turn(toolCall{"everything", "get-sum", map[string]any{"a": json.Number(sum), "b": json.Number(next)}})[0])
			sum = strings.TrimSuffix(sum, ".")
		}
		return sum
	},
	// Nothing says what the result looks like, so the model looks first.
	scripts: []string{`return await call("everything:get-sum", {a: 12, b: 30});`,
		`let sum = 42;
for (const b of [8, 51]) sum = Number((await call("everything:get-sum", {a: sum, b})).match(/(\d+)\.$/)[1]);
return String(sum);`},
	want: "101",
}, {
	name: "heads of five logs", calls: 5,
	task:  "What are the first lines of log1 to log5?",
	files: numbered(5, "log%d", func(int) string { return logOf(300) }),
	tools: map[string]string{"filesystem:read_text_file": "read the first lines of a text file"},
	play: func(p *player) string {
		var calls []toolCall
		for i := range 5 {
			calls = append(calls, at("read_text_file", map[string]any{"path": filepath.Join(p.dir, fmt.Sprintf("log%d", i+1)), "head": 1}))
		}
		return strings.Join(p.turn(calls...), "\n")
	},
	scripts: []string{`const heads = await Promise.all([1, 2, 3, 4, 5].map(i => call("filesystem:read_text_file", {path: "DIR/log" + i, head: 1})));
return heads.map(h => h.content).join("\n");`},
	want: strings.TrimSuffix(strings.Repeat(strings.SplitAfterN(logOf(1), "\n", 2)[0], 5), "\n"),
}}

var ends = regexp.MustCompile(`\d+\.$`)

// longJobs are jobs of published servers with many calls.
var longJobs = []job{{
	name: "write six pages", calls: 8,
	task:  "Make a folder site with six pages p1.html to p6.html that have a title and a link to the next one.",
	tools: map[string]string{"filesystem:create_directory": "create a folder", "filesystem:write_file": "write a file", "filesystem:list_directory": "list a folder"},
	play: func(p *player) string {
		site := filepath.Join(p.dir, "site")
		p.turn(at("create_directory", map[string]any{"path": site}))
		var calls []toolCall
		for i := range 6 {
			calls = append(calls, at("write_file", map[string]any{"path": fmt.Sprintf("%s/p%d.html", site, i+1),
				"content": fmt.Sprintf("<title>Page %d</title>\n<a href=\"p%d.html\">next</a>\n", i+1, (i+1)%6+1)}))
		}
		p.turn(calls...)
		return fmt.Sprint(strings.Count(p.turn(at("list_directory", map[string]any{"path": site}))[0], "[FILE]"))
	},
	scripts: []string{`const path = "DIR/site";
await call("filesystem:create_directory", {path});
for (let i = 1; i <= 6; i++)
  await call("filesystem:write_file", {path: path + "/p" + i + ".html", content: "<title>Page " + i + "</title>\n<a href=\"p" + (i % 6 + 1) + ".html\">next</a>\n"});
return String((await call("filesystem:list_directory", {path})).content.split("[FILE]").length - 1);`},
	want: "6",
}, {
	name: "permissions of 11 files", calls: 12,
	task:  "Which permissions do the files have?",
	files: numbered(11, "part%02d", func(i int) string { return strings.Repeat("x", i) }),
	tools: map[string]string{"filesystem:list_directory": "list a folder", "filesystem:get_file_info": "permissions of a file"},
	play: func(p *player) string {
		count := 0
		for _, info := range p.turn(p.each("get_file_info")...) {
			count += strings.Count(info, "permissions: 600")
		}
		return fmt.Sprint(count, " files have 600")
	},
	scripts: []string{`return (await call("filesystem:list_directory", {path: "DIR"})).content + (await call("filesystem:get_file_info", {path: "DIR/part01"})).content;`,
		eachFile + `const count = infos.filter(i => i.content.includes("permissions: 600")).length;
return count + " files have 600";`},
	want: "11 files have 600",
}, {
	name: "follow 15 pages", calls: 15,
	task: "Start at page1.json, follow \"next\" to the end, and add up the amounts.",
	files: numbered(15, "page%d.json", func(i int) string {
		return fmt.Sprintf(`{"amount": %d, "items": ["a%[1]d", "b%[1]d", "c%[1]d"], "next": %q}`, i*10, map[bool]string{true: fmt.Sprintf("page%d.json", i+1)}[i < 15])
	}),
	tools: map[string]string{"filesystem:read_text_file": "read a text file"},
	play: func(p *player) string {
		sum := 0
		for next := "page1.json"; next != ""; {
			var page struct {
				Amount int
				Next   string
			}
			text := p.turn(at("read_text_file", map[string]any{"path": filepath.Join(p.dir, next)}))[0]
			if err := json.Unmarshal([]byte(text), &page); err != nil {
				p.t.Fatal(err)
			}
			sum, next = sum+page.Amount, page.Next
		}
		return fmt.Sprint(sum)
	},
	scripts: []string{`let sum = 0;
for (let next = "page1.json"; next; ) {
  const page = JSON.parse((await call("filesystem:read_text_file", {path: "DIR/" + next})).content);
  sum += page.amount;
  next = page.next;
}
return String(sum);`},
	want: "1200",
}, {
	name: "rename 23 files", calls: 24,
	task:  "Rename all files from .jpeg to .jpg.",
	files: numbered(23, "IMG_%04d.jpeg", func(int) string { return "" }),
	tools: map[string]string{"filesystem:list_directory": "list a folder", "filesystem:move_file": "rename a file"},
	play: func(p *player) string {
		calls := p.each("move_file")
		for _, c := range calls {
			arguments := c.arguments.(map[string]any)
			arguments["source"] = arguments["path"]
			arguments["destination"] = strings.TrimSuffix(arguments["path"].(string), ".jpeg") + ".jpg"
			delete(arguments, "path")
		}
		return fmt.Sprint(len(p.turn(calls...)), " files were renamed")
	},
	scripts: []string{`const dir = "DIR/", { content } = await call("filesystem:list_directory", {path: dir});
const names = content.split("\n").map(line => line.replace("[FILE] ", "")).filter(name => name.endsWith(".jpeg"));
await Promise.all(names.map(name => call("filesystem:move_file", {source: dir + name, destination: dir + name.replace(/jpeg$/, "jpg")})));
return names.length + " files were renamed";`},
	want: "23 files were renamed",
}, {
	name: "38 files into a graph", calls: 40,
	task:  "Put every file with its size into the knowledge graph.",
	files: numbered(38, "data%02d.bin", func(i int) string { return strings.Repeat("x", i*7) }),
	tools: map[string]string{"filesystem:list_directory": "list a folder", "filesystem:get_file_info": "size of a file", "memory:create_entities": "create entities in the knowledge graph"},
	play: func(p *player) string {
		var entities []any
		for i, info := range p.turn(p.each("get_file_info")...) {
			size, _, _ := strings.Cut(info, "\n")
			entities = append(entities, map[string]any{"name": fmt.Sprintf("%s/data%02d.bin", filepath.Base(filepath.Dir(p.dir)), i+1), "entityType": "file", "observations": []string{size}})
		}
		made := p.turn(toolCall{"memory", "create_entities", map[string]any{"entities": entities}})[0]
		return fmt.Sprint(strings.Count(made, `"size: `), " files are in the graph")
	},
	scripts: []string{`return (await call("filesystem:list_directory", {path: "DIR"})).content + (await call("filesystem:get_file_info", {path: "DIR/data01.bin"})).content;`,
		eachFile + `const entities = infos.map((info, i) => ({name: "RUN/" + names[i], entityType: "file", observations: [info.content.split("\n")[0]]}));
const made = await call("memory:create_entities", {entities});
return made.entities.filter(e => e.observations[0].startsWith("size: ")).length + " files are in the graph";`},
	want: "38 files are in the graph",
}}

// eachFile is the begin of a script about each file of the job's folder.
const eachFile = `const dir = "DIR/", { content } = await call("filesystem:list_directory", {path: dir});
const names = content.split("\n").map(line => line.replace("[FILE] ", ""));
const infos = await Promise.all(names.map(name => call("filesystem:get_file_info", {path: dir + name})));
`

// each lists the job's folder and returns a call for each file.
func (p *player) each(tool string) (calls []toolCall) {
	p.t.Helper()
	for line := range strings.SplitSeq(p.turn(at("list_directory", map[string]any{"path": p.dir}))[0], "\n") {
		calls = append(calls, at(tool, map[string]any{"path": filepath.Join(p.dir, strings.TrimPrefix(line, "[FILE] "))}))
	}
	return calls
}

// numbered makes files from 1 to n.
func numbered(n int, name string, text func(i int) string) map[string]string {
	files := map[string]string{}
	for i := 1; i <= n; i++ {
		files[fmt.Sprintf(name, i)] = text(i)
	}
	return files
}

// logOf makes a log of n lines.
func logOf(n int) string {
	var b strings.Builder
	for i := range n {
		level := "INFO"
		if i%7 == 3 {
			level = "ERROR"
		}
		fmt.Fprintf(&b, "2026-11-03T09:%02d:%02d %s request %d took %d ms\n", i/60, i%60, level, 1000+i, i*37%900)
	}
	return b.String()
}
