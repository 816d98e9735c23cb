package cli

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/edit"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/registry"
)

// SkillOptions are the flags of skill.
type SkillOptions struct {
	Servers     []string
	Write, User bool
}

// Skill prints or writes the skill, with the words of a router on the servers if it names some.
func Skill(ctx context.Context, e *Env, o SkillOptions) error {
	text, err := makeSkill(ctx, e, o)
	if err != nil {
		return err
	}
	_, _, err = e.Files.Find()
	if none, ok := errors.AsType[*configfile.NoConfiguration](err); ok {
		e.Note("no tool can be called yet: %s", none.Problem("").Message)
	}
	return writeSkill(&edit.Editor{Source: e.Files, Write: o.Write}, text, o.User)
}

func makeSkill(ctx context.Context, e *Env, o SkillOptions) (string, error) {
	flags := ""
	for _, path := range e.Files.Paths {
		path, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		flags += " --config " + commandline.Quote(path)
	}
	if len(o.Servers) == 0 {
		return skillText(nil, flags), nil
	}
	tools, err := toolsOf(ctx, e, o.Servers)
	if err != nil {
		return "", err
	}
	var servers []wordsOfServer
	for _, name := range o.Servers {
		servers = append(servers, wordsOf(name, tools))
	}
	return skillText(servers, flags), nil
}

// toolsOf returns the tools of servers of the configuration, as far as they are known.
func toolsOf(ctx context.Context, e *Env, servers []string) (tools []*registry.NormalizedTool, err error) {
	parameters := e.parameters(append(everyTool, "wait", "some")...)
	parameters["server"] = servers
	err = show(ctx, e, need{}, "/dashboard/tools", parameters, func(found admin.Tools) error {
		for _, t := range found.Tools {
			tools = append(tools, normalized(t))
		}
		return nil
	})
	return tools, err
}
