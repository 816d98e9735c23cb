package launch

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/program"
)

// uvx unpacks a package into an environment of its own, runs the program there and stays: one more process of 13 MB. So uvx
// runs a program of ours in that environment, which reports the environment's variables ([process.Report]). Then the program of
// the package is run without uvx. uv still decides everything: the version, the Python, the variables.

// fromPyPI matches a package of a Python registry with at most one exact version.
var fromPyPI = lazy.Regexp(`^([A-Za-z0-9][A-Za-z0-9._-]*)(\[[A-Za-z0-9._, -]+\])?(?:(?:==|@)([0-9][0-9A-Za-z.+!]*))?$`)

// uvOptions are the options before the package that uvx is asked with. Others may have values that can't be told from the package,
// or change the program's folder and variables.
var uvOptions = []string{"--from", "--with", "--python", "-p", "--index-url", "--index", "-q", "--quiet", "--offline", "--isolated", "--refresh", "--native-tls", "--no-progress"}

// askUVX returns the command by which uvx runs the program reporter where it would run the package's. ok is false for options
// that are not known, and for a package that may be something else.
func askUVX(c process.Command, use commandline.Packages, reporter string) (asked process.Command, ok bool) {
	spec := use.Specs[0]
	m := fromPyPI().FindStringSubmatch(spec.Text)
	if m == nil || use.Program >= len(c.Args) {
		return c, false
	}
	options := slices.Clone(c.Args[:use.Program])
	for _, option := range options {
		if name, _, _ := strings.Cut(option, "="); strings.HasPrefix(option, "-") && !slices.Contains(uvOptions, name) {
			return c, false
		}
	}
	for _, v := range c.Env { // with these, uvx gives the program more variables, or another folder
		if name, _, _ := strings.Cut(v, "="); slices.Contains([]string{"UV_ENV_FILE", "UV_WORKING_DIR", "UV_WORKING_DIRECTORY"}, name) {
			return c, false
		}
	}
	from := m[1] + m[2]
	if m[3] != "" {
		from += "==" + m[3] // some versions of uv take name@version after --from for something else
	}
	if spec.From {
		options[spec.Arg] = strings.TrimSuffix(options[spec.Arg], spec.Text) + from
	} else {
		options = append(options, "--from", from)
	}
	c.Args = append(options, reporter, process.ReportEnvironment)
	return c, true
}

// pythonProgram returns the program of that name, perhaps with a version, in the environment that uvx made, the first folder of
// its search path.
func pythonProgram(name, search string) (path string, ok bool) {
	if m := fromPyPI().FindStringSubmatch(name); m != nil {
		name = m[1]
	}
	folders := filepath.SplitList(search)
	if len(folders) == 0 || strings.ContainsRune(name, filepath.Separator) {
		return "", false
	}
	return program.Search(name, folders[:1])
}

// setByUV reports whether uvx sets the variable for the programs that it runs.
func setByUV(name string) bool {
	return name == "PATH" || name == "VIRTUAL_ENV" || strings.HasPrefix(name, "UV")
}

// exactPython returns the package as name@version if the text names one version.
func exactPython(spec string) string {
	if m := fromPyPI().FindStringSubmatch(spec); m != nil && m[3] != "" {
		return m[1] + "@" + m[3]
	}
	return ""
}

// pythonPackageOf returns the package spec as name@version, with the version in the environment of a program.
func pythonPackageOf(path, spec string) string {
	m := fromPyPI().FindStringSubmatch(spec)
	if m == nil {
		return ""
	}
	infos, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(path)), "lib", "python*", "site-packages", "*.dist-info"))
	for _, info := range infos {
		name, version, ok := strings.Cut(strings.TrimSuffix(filepath.Base(info), ".dist-info"), "-")
		if ok && wheelName(name) == wheelName(m[1]) {
			return m[1] + "@" + version
		}
	}
	return ""
}

// wheelName returns the name of a package as uv's cache has it.
func wheelName(name string) string {
	return strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
}

// cachedByUV returns the wheels of the package that uv has, as name@version; nil if it seems to lack it.
func cachedByUV(spec string, own map[string]string) (all []string) {
	m := fromPyPI().FindStringSubmatch(spec)
	home, err := os.UserHomeDir()
	if m == nil || err != nil {
		return nil
	}
	cache := cmp.Or(own["UV_CACHE_DIR"], os.Getenv("UV_CACHE_DIR"), filepath.Join(cmp.Or(own["XDG_CACHE_HOME"], os.Getenv("XDG_CACHE_HOME"), filepath.Join(home, ".cache")), "uv"))
	wheels, _ := filepath.Glob(filepath.Join(cache, "wheels-v*", "*", wheelName(m[1]), cmp.Or(m[3], "*")+"-*.http"))
	for _, wheel := range wheels {
		version, _, _ := strings.Cut(filepath.Base(wheel), "-")
		all = append(all, m[1]+"@"+version)
	}
	return all
}
