//go:build unix

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A skill is an entry of skills/list.
type skill struct {
	URI         string
	Frontmatter struct{ Name, Description string }
	Resources   json.RawMessage
}

// skillsOf returns the listed skills by URI.
func skillsOf(t *testing.T, c mcptest.Requester) map[string]skill {
	t.Helper()
	raw, err := mcptest.List(within(t), c, "skills/list", "skills")
	expect.OK(t, err)
	all := make(map[string]skill)
	for _, one := range raw {
		var s skill
		expect.OK(t, json.Unmarshal(one, &s))
		all[s.URI] = s
	}
	return all
}

// readFile reads a file, and compares it with the skill's digest if that is not nil.
func readFile(t *testing.T, c mcptest.Requester, uri string, entry *skill) (string, error) {
	t.Helper()
	raw, err := c.Request(within(t), "resources/read", map[string]string{"uri": uri})
	if err != nil {
		return "", err
	}
	var result struct{ Contents []struct{ URI, Text string } }
	expect.OK(t, json.Unmarshal(raw, &result))
	expect.Equal(t, result.Contents[0].URI, uri, "the URI")
	text := result.Contents[0].Text
	if entry != nil {
		var files []struct{ URI, Digest string }
		expect.OK(t, json.Unmarshal(entry.Resources, &files))
		i := slices.IndexFunc(files, func(f struct{ URI, Digest string }) bool { return f.URI == uri })
		expect.Equal(t, files[i].Digest, fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))), "the digest of "+uri)
	}
	return text, nil
}

// Two servers have skills, some with the same URI and some that clients must not load; clients of both eras get the others.
func TestSkills(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	const git, ofB, unlisted = "skill://git/SKILL.md", "metarouter://b/skill://git/SKILL.md", "skill://unlisted/SKILL.md"
	for era, more := range map[string]int{"legacy": 10_000, "modern": 3} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := prepare(t, entries{
				"a": fake("-name", "a", "-tools", "echo,grow_skills,edit_skills", "-skills", "git,outside,bomb,dynamic", "-era", era),
				"b": fake("-name", "b", "-skills", "git,forged", "-many-skills", fmt.Sprint(more), "-era", "both"),
			}, map[string]any{"listWait": "60s", "profiles": map[string]any{
				"few": map[string]any{"tools": map[string]any{"allow": []string{"echo"}}, "skills": map[string]any{"allow": []string{"git"}, "deny": []string{"b:git"}}},
			}})
			url, _ := s.serveHTTP("--mode", "direct")
			raw := mcptest.NewHTTPClient(t, url)
			c := open(t, raw, raw.Notifications, era, `{}`, nil)

			all := skillsOf(t, c)
			entryA, entryB := all[git], all[ofB]
			expect.Equal(t, entryA.Frontmatter.Description+" "+entryB.Frontmatter.Description, "How a does git, with echo. How b does git, with echo.", "two skills of one URI")
			expect.Equal(t, len(all), 2+min(more+2, 1000), "skills: two of a, and the first 1000 of b")
			expect.Equal(t, string(all["metarouter://a/skill://dynamic/SKILL.md"].Resources), `"dynamic"`, "a dynamic skill")
			for uri, entry := range map[string]*skill{git: &entryA, ofB: &entryB, "skill://git/more.md": &entryA, "metarouter://b/skill://git/more.md": &entryB, "metarouter://a/skill://dynamic/more.md": nil} {
				_, err := readFile(t, c, uri, entry)
				expect.OK(t, err)
			}
			for _, method := range []string{"resources/read", "skills/get"} {
				_, err := c.Request(within(t), method, map[string]string{"uri": unlisted})
				expect.OK(t, err)
			}
			expect.Contains(t, gets(t, c, ofB), `"uri":"metarouter://b/skill://git/more.md"`)
			for uri, want := range map[string]string{"skill://none/SKILL.md": "-32602", "skill://outside/SKILL.md": "is not in its folder", "skill://bomb/SKILL.md": "more than 16 MiB"} {
				expect.Contains(t, gets(t, c, uri), want)
			}
			_, err := readFile(t, c, "skill://forged/more.md", nil)
			expect.Contains(t, fmt.Sprint(err), `b: the file "skill://forged/more.md" does not fit its digest`)

			found, err := c.call(within(t), "find_tools", map[string]any{"query": "how does a do git", "kinds": []string{"skill"}})
			expect.OK(t, err)
			expect.Contains(t, string(found), `"mentions":["a:echo"]`)

			// A change that the server does not announce is read, and got; an announced one is listed.
			_, err = c.call(within(t), "a__edit_skills", map[string]any{})
			expect.OK(t, err)
			text, err := readFile(t, c, git, nil)
			expect.OK(t, err)
			expect.Contains(t, gets(t, c, git), fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))))
			_, err = c.call(within(t), "a__grow_skills", map[string]any{})
			expect.OK(t, err)
			mcptest.WaitFor(t, "the new skill in the list", func() bool { return skillsOf(t, c)["skill://grown-2/SKILL.md"].URI != "" })

			few := open(t, mcptest.NewHTTPClient(t, strings.Replace(url, "/mcp", "/mcp/p/few", 1)), nil, era, `{}`, nil)
			expect.Equal(t, len(skillsOf(t, few)), 1, "skills of the profile")
			_, err = readFile(t, few, git, nil)
			expect.OK(t, err)
			for _, uri := range []string{ofB, "metarouter://b/skill://git/more.md", "skill://dynamic/SKILL.md", unlisted, "skill://%67it/../unlisted/SKILL.md"} {
				expect.Contains(t, gets(t, few, uri), "-32602")
				_, err = readFile(t, few, uri, nil)
				expect.Contains(t, fmt.Sprint(err), "-32602")
			}
			alone := open(t, mcptest.NewHTTPClient(t, strings.Replace(url, "/mcp", "/mcp/s/b", 1)), nil, era, `{}`, nil)
			expect.Equal(t, skillsOf(t, alone)[git].Frontmatter.Description, "How b does git, with echo.", "b as itself")
			report, _, _ := s.run("doctor", "--json")
			expect.Contains(t, report, "is not in its folder")
			expect.Contains(t, report, "more than 16 MiB together")
			expect.Equal(t, strings.Contains(report, "only the first 1000 of 10002 skills are used"), more > 1000, "the bound in doctor's report")
		})
	}
}

// gets returns the answer to skills/get, or its error.
func gets(t *testing.T, c mcptest.Requester, uri string) string {
	t.Helper()
	raw, err := c.Request(within(t), "skills/get", map[string]string{"uri": uri})
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
