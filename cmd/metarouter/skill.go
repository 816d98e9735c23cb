package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/cli"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/edit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/skill"
)

// skillOptions are the flags of skill.
type skillOptions struct {
	servers     []string
	write, user bool
}

func newSkillCommand(env *environment) *cobra.Command {
	var o skillOptions
	cmd := newCommand("skill", "Print a skill, with which agents use your tools in a shell",
		`  metarouter skill
  metarouter skill --servers github,playwright --write`,
		noArguments, func(ctx context.Context, _ []string) error { return runSkill(ctx, env, o) })
	cmd.Long = `Prints a SKILL.md: instructions with which an agent that has a shell, such as Claude
Code, uses metarouter search, call and route instead of MCP.`
	cmd.Flags().StringSliceVar(&o.servers, "servers", nil, "Name these `servers` of the configuration, separated by commas, in the skill, and what they are for. By default it names none, and fits any configuration.")
	cmd.Flags().BoolVar(&o.write, "write", false, "Write it to .claude/skills/metarouter/SKILL.md in this folder, where Claude Code finds it, and keep a copy of a file that is there. By default it is only printed.")
	cmd.Flags().BoolVar(&o.user, "user", false, "Use the skills of your user, in ~/.claude or $CLAUDE_CONFIG_DIR. By default they are those of this folder.")
	return cmd
}

func runSkill(ctx context.Context, env *environment, o skillOptions) error {
	text, err := makeSkill(ctx, env, o)
	if err != nil {
		return err
	}
	_, _, err = env.files.Find()
	if none, ok := errors.AsType[*configfile.NoConfiguration](err); ok {
		env.Note("no tool can be called yet: %s", none.Problem("").Message)
	}
	return skill.Write(&edit.Editor{Source: &env.files, Write: o.write}, text, o.user)
}

// makeSkill returns the text, with what a router knows of the servers if it names some.
func makeSkill(ctx context.Context, env *environment, o skillOptions) (string, error) {
	flags := ""
	for _, path := range env.files.Paths {
		path, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		flags += " --config " + clients.Word(path)
	}
	if len(o.servers) == 0 {
		return skill.Text(nil, flags), nil
	}
	tools, err := cli.ToolsOf(ctx, env.asking(), o.servers)
	if err != nil {
		return "", err
	}
	var servers []skill.Server
	for _, name := range o.servers {
		servers = append(servers, skill.ServerOf(name, tools))
	}
	return skill.Text(servers, flags), nil
}
