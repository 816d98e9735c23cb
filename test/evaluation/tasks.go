package evaluation

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/registry"
)

// A Task is a task and the tools that are right as the first call. Without any, no tool of
// the catalog fits.
type Task struct {
	ID    string   `json:"id"`
	Kind  string   `json:"kind"` // how it is worded, such as "sentence"; [NoTool] if no tool fits
	Text  string   `json:"task"`
	Right []string `json:"right"` // IDs, as server:tool
}

// NoTool is the kind of tasks for which the catalog has no tool.
const NoTool = "none"

// A TaskCatalog is the tools of recorded servers, and tasks for them.
type TaskCatalog struct {
	Name  string // of the folder
	Tools []registry.NormalizedTool
	Tasks []Task
}

// ReadTasks reads a catalog, {"servers": [{"name", "list"}]}, and tasks, a [Task] as JSON in
// each line. The list of a server is the file LIST.json in the folder lists, with the answer
// to tools/list: {"tools": […]}. The tools are normalized and tagged like tools of live
// servers. An error names the file.
func ReadTasks(log *zap.Logger, catalog, tasks, lists string) (c TaskCatalog, err error) {
	c.Name = filepath.Base(filepath.Dir(catalog))
	var index struct {
		Servers []struct{ Name, List string }
	}
	if err := readJSON(catalog, &index); err != nil {
		return c, err
	}
	if len(index.Servers) == 0 {
		return c, fmt.Errorf(`%s: no servers; write {"servers": [{"name", "list"}]}`, catalog)
	}
	var tools normalizer
	for _, server := range index.Servers {
		var list struct{ Tools []json.RawMessage }
		if err := readJSON(filepath.Join(lists, server.List+".json"), &list); err != nil {
			return c, fmt.Errorf("server %q of %s: %w", server.Name, catalog, err)
		}
		for _, definition := range list.Tools {
			tools.add(log, server.Name, definition)
		}
	}
	c.Tools = tools.all
	err = readLines(tasks, func(line []byte) error {
		var t Task
		if err := json.Unmarshal(line, &t); err != nil {
			return err
		}
		if err := t.check(tools.known); err != nil {
			return err
		}
		c.Tasks = append(c.Tasks, t)
		return nil
	})
	return c, err
}

// check returns an error if the right tools are not in the catalog, or contradict the kind.
func (t *Task) check(known map[string]bool) error {
	if t.Kind == "" || strings.TrimSpace(t.Text) == "" {
		return fmt.Errorf(`task %q: write {"id", "kind", "task", "right"}`, t.ID)
	}
	if (t.Kind == NoTool) != (len(t.Right) == 0) {
		return fmt.Errorf("task %q of kind %q has %d right tools; the kind %q has none, all others have some", t.ID, t.Kind, len(t.Right), NoTool)
	}
	for _, id := range t.Right {
		if !known[id] {
			return fmt.Errorf("task %q: the catalog has no tool %q", t.ID, id)
		}
	}
	return nil
}

func readJSON(path string, to any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, to); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
