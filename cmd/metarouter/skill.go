package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/edit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/skill"
	"github.com/mcp-metarouter/metarouter/config"
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
	if env.running != nil { // the process that asks has the files
		_, err := fmt.Fprint(env.Out, text)
		return err
	}
	_, _, err = env.files.Find()
	if none, ok := errors.AsType[*configfile.NoConfiguration](err); ok {
		env.Note("no tool can be called yet: %s", none.Problem("").Message)
	}
	return skill.Write(&edit.Editor{Source: &env.files, Write: o.write}, text, o.user)
}

// makeSkill returns the text. The catalog that it needs if it names servers is that of a
// running router, or of one that starts these servers.
func makeSkill(ctx context.Context, env *environment, o skillOptions) (string, error) {
	flags := ""
	args := []string{"skill", "--servers", strings.Join(o.servers, ",")}
	for _, path := range env.files.Paths {
		path, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		flags += " --config " + clients.Word(path)
		args = append(args, "--config", path)
	}
	if len(o.servers) == 0 {
		return skill.Text(nil, flags), nil
	}
	c, err := loadConfig(ctx, env)
	if err != nil {
		return "", err
	}
	var entries []config.Server
	for _, name := range o.servers {
		entry, err := configfile.Server(c, name)
		if err != nil {
			return "", err
		}
		entries = append(entries, entry)
	}
	if env.running != nil {
		return skill.Text(serversOfSkill(env.running.router, o.servers), flags), nil
	}
	if answer, done, err := requestOutcome(ctx, env, c, args, false); err != nil || done {
		env.Err.Write(answer.Stderr)
		if err == nil && answer.Code != 0 {
			err = &exit.Error{Code: answer.Code}
		}
		return string(answer.Stdout), err
	}
	c.Servers = entries
	var text string
	err = env.local.Run(ctx, c, func(ctx context.Context, r *adapter.Parts) error {
		if err := oneshot.AwaitTools(ctx, env.Console, r); err != nil {
			return err
		}
		text = skill.Text(serversOfSkill(r, o.servers), flags)
		return nil
	})
	return text, err
}

func serversOfSkill(r *adapter.Parts, names []string) (all []skill.Server) {
	for _, name := range names {
		all = append(all, skill.ServerOf(r.Snapshot(), name))
	}
	return all
}
