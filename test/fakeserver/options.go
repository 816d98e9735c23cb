package fakeserver

import (
	"flag"
	"strings"
	"time"
)

// options is everything that a fake server can be asked for. The flags below set it; all
// of them can be combined.
type options struct {
	*process

	// Who the server is and what it offers.
	name, version, instructions string

	tools       []string // names, definitions as JSON objects, or "name: description"
	generated   int
	list        string
	page        int
	duplicate   bool
	badSchemas  bool
	withoutList bool
	prompts     []string
	resources   []string
	templates   []string
	skillsGiven []string
	manySkills  int
	complete    bool
	logging     bool
	askRoots    bool

	// The transport.
	httpFile    string
	sseFile     string
	forgetAfter int
	bearer      string
	asJSON      bool

	// The protocol versions.
	onlyEra         string
	command         []string // what -only-era starts
	era             string
	protocolVersion string
	oneEra          bool
	exitOnUnknown   bool
	silentOnUnknown bool

	// How it fails.
	exit        bool
	exitAfter   int
	mute        bool
	hang        []string
	startDelay  time.Duration
	startFile   string
	crashes     int
	state       string
	noise       bool
	stderrFlood int
	ignoreEOF   bool
	ignoreTerm  bool
	exclusive   string

	// The process and its children.
	grandchild   bool
	setsid       bool
	pidFile      string
	trace        string
	ledger       string
	lifetime     time.Duration
	onlySleeping bool
}

func parseOptions(p *process, args []string) *options {
	o := &options{process: p}
	f := flag.NewFlagSet(marker, flag.ExitOnError)
	o.offers(f)
	o.transports(f)
	o.eras(f)
	o.faults(f)
	o.processes(f)
	f.Parse(args) // exits on an error
	o.command = f.Args()
	return o
}

func commaSeparated(f *flag.FlagSet, to *[]string, name, usage string) {
	f.Func(name, usage, func(s string) error {
		*to = append(*to, strings.Split(s, ",")...)
		return nil
	})
}

func (o *options) offers(f *flag.FlagSet) {
	f.StringVar(&o.name, "name", "fake", "serverInfo.name")
	f.StringVar(&o.version, "version", "1.0.0", "serverInfo.version")
	f.StringVar(&o.instructions, "instructions", "", "the server's instructions")

	commaSeparated(f, &o.tools, "tools", "comma-separated tools (default echo); the name decides what a tool does")
	f.Func("tool", "one tool: NAME, 'NAME: DESCRIPTION' or its definition as JSON (repeatable)", func(s string) error {
		o.tools = append(o.tools, s)
		return nil
	})
	f.IntVar(&o.generated, "n", 0, "this many generated tools, tool_0001 …, each an echo")
	f.StringVar(&o.list, "list", "", `the tools of a FILE {"tools":[…]}, byte for byte, each an echo`)
	f.IntVar(&o.page, "page", 0, "tools in a page of tools/list; 0 lists all at once")
	f.BoolVar(&o.duplicate, "duplicate", false, "list the first tool's name twice")
	f.BoolVar(&o.badSchemas, "bad-schemas", false, "a tool of each bad kind, and a good one named fine")
	f.BoolVar(&o.withoutList, "no-tools", false, "no tools capability, and tools/list is unknown")

	commaSeparated(f, &o.prompts, "prompts", "comma-separated prompts; the one named ask asks the client")
	commaSeparated(f, &o.resources, "resources", "comma-separated URIs of resources; .bin is a blob, and /ask asks the client")
	commaSeparated(f, &o.templates, "templates", "comma-separated URI templates, each with its variable at the end")
	commaSeparated(f, &o.skillsGiven, "skills", "comma-separated skills, each with two files; dynamic, outside, bomb and forged are what they say")
	f.IntVar(&o.manySkills, "many-skills", 0, "this many skills more, skill-1 …")
	f.BoolVar(&o.complete, "complete", false, "complete arguments of prompts and templates")
	f.BoolVar(&o.logging, "logging", false, "support logging/setLevel")
	f.BoolVar(&o.askRoots, "ask-roots", false, "ask for the roots once initialized, and when they change")
}

func (o *options) transports(f *flag.FlagSet) {
	f.StringVar(&o.httpFile, "http", "", "serve streamable HTTP, and write its URL to this file")
	f.StringVar(&o.sseFile, "sse", "", "serve HTTP with SSE as of 2024-11-05, and write its URL to this file")
	f.IntVar(&o.forgetAfter, "forget-after", 0, "forget all HTTP sessions, once, after this many requests")
	f.StringVar(&o.bearer, "bearer", "", "require this token over HTTP")
	f.BoolVar(&o.asJSON, "json", false, "answer HTTP with JSON, never with a stream")
}

func (o *options) eras(f *flag.FlagSet) {
	f.StringVar(&o.onlyEra, "only-era", "", "start the server in the other arguments, and restrict it to the legacy or the modern era")
	f.StringVar(&o.era, "era", "legacy", "legacy, modern or both")
	f.StringVar(&o.protocolVersion, "protocol", "2025-11-25", "the newest legacy version spoken; one that does not exist is answered to all")
	f.BoolVar(&o.oneEra, "one-era", false, "refuse initialize once server/discover was answered")
	f.BoolVar(&o.exitOnUnknown, "exit-on-unknown", false, "exit with status 5 at an unknown method")
	f.BoolVar(&o.silentOnUnknown, "silent-on-unknown", false, "do not answer an unknown method")
}

func (o *options) faults(f *flag.FlagSet) {
	f.BoolVar(&o.exit, "exit", false, "exit at once with status 3 and a line on stderr")
	f.IntVar(&o.exitAfter, "exit-after", 0, "exit with status 4 after this many answered calls")
	f.BoolVar(&o.mute, "mute", false, "read everything and answer nothing")
	commaSeparated(f, &o.hang, "hang", "comma-separated methods that are never answered")
	f.DurationVar(&o.startDelay, "start-delay", 0, "wait before reading anything")
	f.StringVar(&o.startFile, "start-with", "", "wait for this file before reading anything")
	f.IntVar(&o.crashes, "crash-at-start-times", 0, "exit with status 3 at the first N starts, which -state counts")
	f.StringVar(&o.state, "state", "", "the file that counts the starts")
	f.BoolVar(&o.noise, "noise", false, "write lines that are no messages to stdout: before everything, before each message, and lines of 20 MB")
	f.IntVar(&o.stderrFlood, "stderr-flood", 0, "write this many bytes to stderr before reading anything")
	f.BoolVar(&o.ignoreEOF, "ignore-eof", false, "do not exit at the end of stdin")
	f.BoolVar(&o.ignoreTerm, "ignore-term", false, "ignore SIGTERM, SIGINT and SIGHUP, in grandchildren too")
	f.StringVar(&o.exclusive, "exclusive", "", "exit with status 6 if another instance holds this file")
}

func (o *options) processes(f *flag.FlagSet) {
	f.BoolVar(&o.grandchild, "grandchild", false, "leave a child in the same process group, holding stdout and stderr")
	f.BoolVar(&o.setsid, "grandchild-setsid", false, "leave a child in its own session, holding stdout and stderr")
	f.StringVar(&o.pidFile, "pid-file", "", "append the process id to this file, and those of grandchildren")
	f.StringVar(&o.trace, "trace", "", "append each line read to this file")
	f.StringVar(&o.ledger, "ledger", "", "append the executions of ledger_read, ledger_put and ledger_charge to this file")
	f.DurationVar(&o.lifetime, "lifetime", 10*time.Minute, "exit after this time in any case")
	f.BoolVar(&o.onlySleeping, "only-sleep", false, "be the grandchild: do nothing for a lifetime")
}
