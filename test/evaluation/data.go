// Package evaluation reads catalogs and tasks with the tools that they need, and scores
// rankings against them.
package evaluation

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/discovery"
	"github.com/mcp-metarouter/metarouter/internal/capability"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// An Example is a task and the tools that it needs.
type Example struct {
	ID       string     `json:"id"`
	Text     string     `json:"query"`
	Relevant []Relevant `json:"relevant"`
	Group    string     `json:"group"` // examples about the same have the same; "" if there is no other
}

// A Relevant is a tool that a task needs. Tools with the same Alternative, if it is not
// "", meet one need: any of them will do.
type Relevant struct {
	Server      string `json:"server"`
	Name        string `json:"name"`
	Alternative string `json:"alt"`
}

// Needs reports whether the task needs a tool of the server.
func (q *Example) Needs(server string) bool {
	for _, r := range q.Relevant {
		if r.Server == server {
			return true
		}
	}
	return false
}

// A Ranking is the answer for an example: IDs of tools, best first.
type Ranking struct {
	ID     string   `json:"id"`
	Ranked []string `json:"ranked"`
}

// maxRow bounds a line, in bytes.
const maxRow = 64 << 20

// ReadExamples reads a file with an example in each line. An error names file and line.
func ReadExamples(path string) (all []Example, err error) {
	err = readLines(path, func(line []byte) error {
		var q Example
		if err := json.Unmarshal(line, &q); err != nil {
			return err
		}
		all = append(all, q)
		return nil
	})
	return all, err
}

// ReadCatalog reads files with a tool in each line: {"server", "name",
// "description", "input_schema"}. The tools are normalized and tagged like tools of live
// servers; of two with the same ID, the first counts. A tool that cannot be offered is
// left out and logged.
func ReadCatalog(log *zap.Logger, paths ...string) ([]registry.NormalizedTool, error) {
	var tools normalizer
	for _, path := range paths {
		err := readLines(path, func(line []byte) error {
			var row struct {
				Server      string
				Name        string
				Title       string
				Description string
				InputSchema json.RawMessage `json:"input_schema"`
			}
			if err := json.Unmarshal(line, &row); err != nil {
				return err
			}
			if row.InputSchema == nil {
				row.InputSchema = json.RawMessage(`{"type":"object"}`)
			}
			definition := map[string]any{"name": row.Name, "description": row.Description, "inputSchema": row.InputSchema}
			if row.Title != "" {
				definition["title"] = row.Title
			}
			tools.add(log, row.Server, wire.Marshal(definition))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return tools.all, nil
}

// A normalizer makes tools of definitions as discovery does for live servers. The zero value
// is ready.
type normalizer struct {
	all      []registry.NormalizedTool
	known    map[string]bool // by ID
	taxonomy *capability.Taxonomy
}

// add adds a tool, unless it cannot be offered or one with its ID is known.
func (n *normalizer) add(log *zap.Logger, server string, definition json.RawMessage) {
	if n.known == nil {
		n.known, n.taxonomy = make(map[string]bool), capability.NewTaxonomy(nil)
	}
	t, err := discovery.Normalize(server, definition, nil)
	if err != nil {
		var named struct{ Name any }
		_ = json.Unmarshal(definition, &named) // only for the log
		log.Warn("left out a tool", zap.String("server", server), zap.Any("tool", named.Name), zap.Error(err))
		return
	}
	if n.known[t.ID] {
		return
	}
	n.known[t.ID] = true
	t.Capabilities = append(t.Capabilities, n.taxonomy.Infer(t)...)
	n.all = append(n.all, t)
}

// Register returns a registry of the tools.
func Register(tools []registry.NormalizedTool) (*registry.Registry, error) {
	byServer := make(map[string][]registry.NormalizedTool)
	for _, t := range tools {
		byServer[t.Server] = append(byServer[t.Server], t)
	}
	r := registry.New()
	for server, tools := range byServer {
		if _, err := r.Replace(server, registry.Offer{Tools: tools}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func readLines(path string, take func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxRow)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := take(lines.Bytes()); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
