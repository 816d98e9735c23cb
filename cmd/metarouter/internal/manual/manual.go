// Package manual writes manual pages in the language of man(7).
package manual

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Write writes the manual of a program into a folder. root is its command, with its Version.
func Write(root *cobra.Command, folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	root.PersistentFlags().Lookup("data").DefValue = "metarouter in the user's cache folder" // not the folder of the user who builds the package
	if err := writeManual(root, folder, manualDate()); err != nil {
		return fmt.Errorf("write the manual: %w", err)
	}
	return nil
}

// manualDate returns the month of the manual: the month of SOURCE_DATE_EPOCH, which makes builds
// reproducible, else this month.
func manualDate() string {
	date := time.Now()
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		date = time.Unix(seconds, 0)
	}
	return date.UTC().Format("Jan 2006")
}

// writeManual writes the page of a command and of all its subcommands that users see.
func writeManual(cmd *cobra.Command, folder, date string) error {
	for _, sub := range subcommands(cmd) {
		if err := writeManual(sub, folder, date); err != nil {
			return err
		}
	}
	page := filepath.Join(folder, pageName(cmd)+".1")
	return os.WriteFile(page, []byte(manualPage(cmd, date)), 0o666)
}

func subcommands(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(sub *cobra.Command) bool {
		return !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand()
	})
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func manualPage(cmd *cobra.Command, date string) string {
	cmd.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".TH METAROUTER 1 %q %q metarouter\n.nh\n.ad l\n", date, "metarouter "+cmd.Root().Version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", pageName(cmd), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR\n", roff(cmd.UseLine()))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", roff(cmp.Or(cmd.Long, cmd.Short)))
	writeFlags(&b, "OPTIONS", cmd.NonInheritedFlags())
	writeFlags(&b, "OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.EX\n%s\n.EE\n", roff(cmd.Example))
	}
	var others []string
	if cmd.HasParent() {
		others = append(others, pageName(cmd.Parent()))
	}
	for _, sub := range subcommands(cmd) {
		others = append(others, pageName(sub))
	}
	if len(others) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n\\fB%s\\fR(1)\n", strings.Join(others, `\fR(1), \fB`))
	}
	return b.String()
}

func writeFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Deprecated != "" {
			return
		}
		value, usage := pflag.UnquoteUsage(flag)
		b.WriteString(".TP\n")
		if flag.Shorthand != "" {
			fmt.Fprintf(b, `\fB\-%s\fR, `, flag.Shorthand)
		}
		fmt.Fprintf(b, `\fB\-\-%s\fR`, roff(flag.Name))
		if value != "" {
			fmt.Fprintf(b, `=\fI%s\fR`, roff(value))
		}
		fmt.Fprintf(b, "\n%s\n", roff(usage))
		if hasDefault(flag) {
			fmt.Fprintf(b, "The default is %s.\n", roff(flag.DefValue))
		}
	})
}

// hasDefault reports whether a flag's default says more than that the flag is not set.
func hasDefault(flag *pflag.Flag) bool {
	return !slices.Contains([]string{"", "0", "0s", "false", "[]"}, flag.DefValue) && !strings.Contains(flag.Usage, "(default ")
}

// roff returns a text so that man shows it as it is. A blank line begins a paragraph.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		switch {
		case line == "":
			lines[i] = ".PP"
		case line[0] == '.' || line[0] == '\'':
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
