package commandline

import "strings"

// folders are the well-known servers that take folders, by the names of their
// packages and programs.
var folders = map[string]struct {
	all     bool     // each argument that is no option is a folder
	home    bool     // the server takes ~ for the home folder
	options []string // that have a folder as their value
	mounts  bool     // the folders are the sources of bind mounts
}{
	"@modelcontextprotocol/server-filesystem": {all: true, home: true},
	"mcp-server-filesystem":                   {all: true, home: true},
	"mcp-server-git":                          {options: []string{"--repository", "-r"}},
	"mcp_server_git":                          {options: []string{"--repository", "-r"}},
	"uv":                                      {options: []string{"--directory"}},
	"metarouter builtin files":                {all: true},
	"docker":                                  {mounts: true},
	"podman":                                  {mounts: true},
}

// A Folder is an argument that names a folder.
type Folder struct {
	Argument int                     // its place among the arguments
	Of       func(arg string) string // takes the path out of the argument
	AtHome   bool                    // the server takes ~ for the home folder
	OrFile   bool                    // a file is right too
}

// Folders returns the folders among the arguments of a well-known server.
func Folders(command string, args []string) (all []Folder) {
	name, first := server(command, args)
	known := folders[name]
	add := func(i int, of func(arg string) string) {
		all = append(all, Folder{i, of, known.home, known.mounts})
	}
	whole := func(arg string) string { return arg }
	for i := first; i < len(args); i++ {
		arg := args[i]
		for _, option := range known.options {
			switch {
			case arg == option && i+1 < len(args):
				i++
				add(i, whole)
			case strings.HasPrefix(arg, option+"="):
				add(i, func(arg string) string { return strings.TrimPrefix(arg, option+"=") })
			}
		}
		switch {
		case known.mounts && strings.Contains(arg, "type=bind,"):
			add(i, mountSource)
		case known.all && arg != "" && !strings.HasPrefix(arg, "-"):
			add(i, whole)
		}
	}
	return all
}

// mountSource returns the folder of a bind mount such as "type=bind,src=/x,dst=/y".
func mountSource(mount string) string {
	for part := range strings.SplitSeq(mount, ",") {
		if key, path, ok := strings.Cut(part, "="); ok && (key == "src" || key == "source") {
			return path
		}
	}
	return ""
}

// server returns the name of the package or program that a command runs, and where
// in args its own arguments begin.
func server(command string, args []string) (name string, first int) {
	name = Name(command)
	switch name {
	case "npx", "bunx", "pnpx", "uvx":
		rest := AfterOptions(args, wrappers[name])
		if len(rest) == 0 {
			return name, len(args)
		}
		return bareName(rest[0]), len(args) - len(rest) + 1
	case "python", "python3":
		if len(args) > 1 && args[0] == "-m" {
			return args[1], 2
		}
	case "metarouter":
		if len(args) > 1 && args[0] == "builtin" {
			return "metarouter builtin " + args[1], 2
		}
	}
	return name, 0
}

// bareName is a package without its version.
func bareName(p string) string {
	if at := strings.LastIndex(p, "@"); at > 0 {
		return p[:at]
	}
	name, _, _ := strings.Cut(p, "==")
	return name
}
