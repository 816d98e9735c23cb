package execute

import (
	"cmp"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Location is where a server works: its folders and hosts tell its tools from equal tools of other servers.
type Location struct {
	priority int      // of servers that stand in for each other, the higher one is first
	folders  []string // as folderOf returns them
	hosts    []string // as hostOf returns them
}

// NewLocation returns the location of a server from the values of its entry: paths, URLs, and texts that contain these, such as --root=/srv.
func NewLocation(priority int, values []string) *Location {
	p := &Location{priority: priority}
	for _, v := range values {
		for _, part := range strings.FieldsFunc(v, func(r rune) bool { return r == '=' || r == ',' }) {
			if u, err := url.Parse(part); err == nil && u.Host != "" {
				p.hosts = append(p.hosts, strings.ToLower(u.Host))
				continue
			}
			pieces := []string{part}
			if !strings.Contains(part, "://") && !hasDrive(part) {
				pieces = strings.Split(part, ":") // as in /srv/data:/data
			}
			for _, piece := range pieces {
				if folder := folderOf(piece); folder != "" {
					p.folders = append(p.folders, folder)
				}
			}
		}
	}
	return p
}

// Covers returns how many of the values, paths and hosts, are in the folders and hosts of the
// place. Of equal numbers, that with the deeper folders is greater. p may be nil.
func (p *Location) Covers(values []string) float64 {
	if p == nil {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		if depth := p.covered(v); depth > 0 {
			sum += 1 + float64(depth)/1e6
		}
	}
	return sum
}

// covered returns the length of the place's longest folder or host that has the value, 0 if no folder or host has it.
func (p *Location) covered(value string) (length int) {
	if folder := folderOf(value); folder != "" {
		for _, f := range p.folders {
			if folder == f || strings.HasPrefix(folder, strings.TrimSuffix(f, "/")+"/") {
				length = max(length, len(f))
			}
		}
		return length
	}
	host := hostOf(value)
	for _, h := range p.hosts {
		if isWithin(host, h) || isWithin(h, host) {
			length = max(length, min(len(host), len(h)))
		}
	}
	return length
}

// isWithin reports whether a host is another one, or one of its domain. A host without a port stands for all its ports.
func isWithin(host, domain string) bool {
	name, port, _ := strings.Cut(host, ":")
	base, theirs, _ := strings.Cut(domain, ":")
	if port != "" && theirs != "" && port != theirs {
		return false
	}
	return name == base || strings.Contains(base, ".") && strings.HasSuffix(name, "."+base)
}

// folderOf returns an absolute path in the form in which places have folders: clean, with
// slashes, and in lower case on Windows. It is "" for a text that is no absolute path.
func folderOf(text string) string {
	if u, err := url.Parse(text); err == nil && u.Scheme == "file" {
		text = u.Path
	}
	if rest, ok := strings.CutPrefix(text, "~"); ok && (rest == "" || rest[0] == '/') {
		if home, err := os.UserHomeDir(); err == nil {
			text = home + rest
		}
	}
	if drive := strings.TrimPrefix(text, "/"); hasDrive(drive) {
		return path.Clean(strings.ToLower(strings.ReplaceAll(drive, `\`, "/")))
	}
	if !strings.HasPrefix(text, "/") || strings.ContainsAny(text, "\n\x00") {
		return ""
	}
	return path.Clean(text)
}

// hasDrive reports whether a path begins with a drive of Windows.
func hasDrive(path string) bool {
	return len(path) > 2 && path[1] == ':' && (path[2] == '\\' || path[2] == '/')
}

// hostOf returns the host, with its port, of a URL or of a text that is a host, in lower case; "" without one.
func hostOf(text string) string {
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		return strings.ToLower(u.Host)
	}
	if strings.ContainsAny(text, "/ \t\n@") || !strings.Contains(text, ".") && !strings.HasPrefix(text, "localhost") {
		return ""
	}
	return strings.ToLower(text)
}

// The states of a standing, the best first.
const (
	up = iota
	coming
	down
)

// A standing says how well a server, or a replica of a service, can take a call.
type standing struct {
	state    int // up, coming or down
	limit    int // of calls at once; 0 is no limit
	calls    int // that run or wait
	priority int
}

func (s standing) isFull() bool { return s.limit > 0 && s.calls >= s.limit }

// standingOf returns how well the server can take a call now.
func (e *Executor) standingOf(server string, p Policy) standing {
	s := standing{limit: p.MaxConcurrent}
	switch e.Sessions.State(server) {
	case status.Ready, status.Idle, "": // an idle one starts
	case status.Starting:
		s.state = coming
	default:
		s.state = down
	}
	if p.Location != nil {
		s.priority = p.Location.priority
	}
	l := e.limiters.of(server)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isOpen() {
		s.state = down
	}
	s.calls = l.active + l.waiting
	return s
}

// compare orders standings, the better one first.
func (s standing) compare(t standing) int {
	full := func(s standing) int {
		if s.isFull() {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(s.state, t.state), cmp.Compare(full(s), full(t)), cmp.Compare(t.priority, s.priority), cmp.Compare(s.calls, t.calls))
}

// Sort sorts tools of servers that stand in for each other, the one to call first. Equally good ones keep their order.
func (e *Executor) Sort(tools []*registry.NormalizedTool) {
	if len(tools) < 2 || e == nil {
		return
	}
	standings := make(map[string]standing, len(tools))
	for _, t := range tools {
		standings[t.Server] = e.standingOf(t.Server, e.Sessions.Policy(t.Server))
	}
	slices.SortStableFunc(tools, func(a, b *registry.NormalizedTool) int { return standings[a.Server].compare(standings[b.Server]) })
}

// PolicyOf returns the policy of a server, the zero one if e is nil.
func (e *Executor) PolicyOf(server string) Policy {
	if e == nil {
		return Policy{}
	}
	return e.Sessions.Policy(server)
}
