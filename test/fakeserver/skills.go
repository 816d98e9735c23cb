package fakeserver

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

const skillsExtension = "io.modelcontextprotocol/skills"

// skillNames returns the names of the skills that the server has. s.mu must be held.
func (s *server) skillNames() []string {
	all := slices.Clone(s.skills)
	for i := range s.manySkills {
		all = append(all, fmt.Sprintf("skill-%d", i+1))
	}
	return all
}

// skillFile returns the content of a file of a skill. s.mu must be held.
func (s *server) skillFile(uri string) (content string, ok bool) {
	name, file, _ := strings.Cut(strings.TrimPrefix(uri, "skill://"), "/")
	switch {
	case !strings.HasPrefix(uri, "skill://") || name != "unlisted" && !strings.HasPrefix(name, "skill-") && !slices.Contains(s.skills, name):
		return "", false
	case file == "SKILL.md":
		return fmt.Sprintf("---\nname: %s\ndescription: %s\n---\nEdition %d. Read more.md.\n", name, s.skillAbout(name), s.grown), true
	case file == "more.md":
		return "More of " + s.name + ".\n", true
	}
	return "", false
}

func (s *server) skillAbout(name string) string {
	return "How " + s.name + " does " + name + ", with echo."
}

// skill returns the entry of a skill; some names have a fault. s.mu must be held.
func (s *server) skill(name string) json.RawMessage {
	base := "skill://" + name + "/"
	var files []map[string]any
	for _, file := range []string{"SKILL.md", "more.md"} {
		content, _ := s.skillFile(base + file)
		if name == "forged" {
			content = "another text"
		}
		files = append(files, map[string]any{"uri": base + file, "digest": fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))), "size": len(content)})
	}
	var resources any = files
	switch name {
	case "dynamic":
		resources = "dynamic"
	case "outside":
		files[1]["uri"] = base + "%2e%2e/secret.md"
	case "bomb":
		files[1]["size"] = 16 << 20
	}
	return protocol.Encode(map[string]any{"uri": base + "SKILL.md", "resources": resources,
		"frontmatter": map[string]string{"name": name, "description": s.skillAbout(name)}})
}

// answerSkills answers skills/list and skills/get. The skill named unlisted is in no list.
func answerSkills(c *call) (string, *rpcError) {
	var p struct{ URI string }
	json.Unmarshal(c.message.Params, &p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.message.Method == "skills/list" {
		var all []json.RawMessage
		for _, name := range c.skillNames() {
			all = append(all, c.skill(name))
		}
		return pageOf(c, "skills", all)
	}
	name, isSkill := strings.CutSuffix(strings.TrimPrefix(p.URI, "skill://"), "/SKILL.md")
	if _, ok := c.skillFile(p.URI); !ok || !isSkill {
		return "", newError(-32602, "No such skill")
	}
	return fmt.Sprintf(`{"skill":%s,"ttlMs":0,"cacheScope":"private"}`, c.skill(name)), nil
}

// growSkills adds a skill, and changes all, with or without a word.
func growSkills(word bool) action {
	return func(c *call) (string, *rpcError) {
		name := strings.ReplaceAll(c.grownName(), "_", "-")
		c.mu.Lock()
		c.skills = append(c.skills, name)
		c.mu.Unlock()
		if word {
			c.notifyAll("notifications/resources/list_changed", "")
		}
		return text("added " + name), nil
	}
}
