//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// options are the flags.
type options struct {
	lasts      time.Duration
	clients    int
	workers    int
	servers    int
	pause      time.Duration
	faults     []string
	seed       uint64
	router     string
	standalone bool
	plot       string
	report     string
	keep       bool
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	f.DurationVar(&o.lasts, "for", time.Minute, "how long the faults and the load go on")
	f.IntVar(&o.clients, "clients", 8, "clients, one half over stdio with a serve each, the other over HTTP")
	f.IntVar(&o.workers, "workers", 3, "calls that each client has under way at once")
	f.IntVar(&o.servers, "servers", 12, "servers in the configuration")
	f.DurationVar(&o.pause, "pause", 10*time.Millisecond, "the longest pause of a worker between two calls")
	list := f.String("faults", "all", "comma-separated: all ("+strings.Join(usual(), ", ")+"), none, or some of them; router, which kills routers, only if named")
	f.Uint64Var(&o.seed, "seed", rand.Uint64(), "of the order of faults and calls")
	f.StringVar(&o.router, "router", "", "the metarouter `binary` (default: built from this module)")
	f.BoolVar(&o.standalone, "standalone", false, "start serve with --standalone")
	f.StringVar(&o.plot, "plot", "", "`file` for an SVG of memory, descriptors and calls over time")
	f.StringVar(&o.report, "report", "", "`file` for the report in Markdown (default: stdout)")
	f.BoolVar(&o.keep, "keep", false, "keep the run's folder even if all is well")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.clients < 2 || o.servers < 2 || o.workers < 1 {
		return o, errors.New("at least two clients, two servers and one worker, and no other arguments")
	}
	o.faults, err = faultsNamed(*list)
	return o, err
}

func main() {
	serveIfAsked()
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	keepFiles()
	enterNamespace()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := do(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// keepFiles keeps the files that this process was started with from the routers. A router that
// starts the shared one closes such files and others keep them, so after a router was killed the
// open files would be others than before.
func keepFiles() {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		fmt.Fprintln(os.Stderr, "chaos: keep files from routers:", err)
	}
}
