package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newManCommand returns the command that writes the manual of root, for packages of the
// program.
func newManCommand(root *cobra.Command) *cobra.Command {
	cmd := newCommand("man DIR", "Write the manual pages into a folder", "  metarouter man man1", arguments(1, 1, "name one folder"),
		func(_ context.Context, args []string) error { return runMan(root, args[0]) })
	cmd.Hidden = true
	return cmd
}

func runMan(root *cobra.Command, folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	root.PersistentFlags().Lookup("data").DefValue = "metarouter in the user's cache folder" // not the folder of the user who builds the package
	header := &doc.GenManHeader{Title: "METAROUTER", Section: "1", Source: "metarouter " + version, Manual: "metarouter"}
	if err := doc.GenManTree(root, header, folder); err != nil {
		return fmt.Errorf("write the manual: %w", err)
	}
	return nil
}
