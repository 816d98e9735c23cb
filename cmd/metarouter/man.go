package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// man is for whoever packages the program.
func (a *app) man(root *cobra.Command) *cobra.Command {
	cmd := leaf("man DIR", "Write the manual's pages into a folder", "  metarouter man man1", cobra.ExactArgs(1),
		func(_ context.Context, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			root.DisableAutoGenTag = true
			root.PersistentFlags().Lookup("data").DefValue = "metarouter in the user's cache folder" // not that of who packages
			header := &doc.GenManHeader{Title: "METAROUTER", Section: "1", Source: "metarouter " + version, Manual: "metarouter"}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write the manual: %w", err)
			}
			return nil
		})
	cmd.Hidden = true
	return cmd
}
