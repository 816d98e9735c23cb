package exposure

import (
	"regexp"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestNamesInOtherScripts(t *testing.T) {
	tools := func() (all []*registry.NormalizedTool) {
		for _, one := range [][3]string{
			{"names", "суммировать", ""}, {"names", "取得", "Fetch the current weather of a city"}, {"names", "削除", ""}, {"names", "データ取得", ""},
			{"names", "검색", ""}, {"names", "αναζήτηση", ""}, {"names", "größe_ändern", ""}, {"names", "حذف", "Deletes a file"}, {"сервер", "поиск", ""}, {"names", "a.b", ""},
			{"names", "取得2", "获取 Fetch"},
		} {
			all = append(all, &registry.NormalizedTool{ID: registry.ID(one[0], one[1]), Server: one[0], Name: one[1], Description: one[2]})
		}
		return all
	}()
	names := OfTools(tools, Prefixed, "", "")
	want := []string{"names__summirovat_", "names__fetch_the_current", "names___", "names___", "names___", "names__anazitisi_",
		"names__grosse_andern_", "names__deletes_a_file_", "server__poisk_", "names__a_b_", "names__fetch_"}
	seen := map[string]bool{}
	for i, tool := range tools {
		got := names.Exposed(tool)
		if !regexp.MustCompile(`^`+want[i]+`[a-z_]*[0-9a-f]{8}$`).MatchString(got) || len(got) > maxName || seen[got] {
			t.Errorf("%s is shown as %s, want %s…", tool.ID, got, want[i])
		}
		seen[got] = true
		if same, ok := names.Only(got); !ok || same != tool {
			t.Errorf("%s means %v", got, same)
		}
	}
	expect.Equal(t, names.Exposed(tools[0]), "names__summirovat_9a316fe6", "the hash is another one")
}
