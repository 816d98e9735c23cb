package edit

import (
	"encoding/json"

	"golang.org/x/mod/semver"
)

// taken returns the version that npx takes of those that 'npm view SPEC version dist-tags
// --json' prints: the one with the tag latest, else the highest. It is "" without a version.
func taken(printed []byte) string {
	type found struct {
		Version string
		Tags    struct{ Latest string } `json:"dist-tags"`
	}
	var all []found // of a tag or a single version, one object is printed instead
	if json.Unmarshal(printed, &all) != nil {
		var one found
		if json.Unmarshal(printed, &one) != nil {
			return ""
		}
		all = []found{one}
	}
	highest := ""
	for _, f := range all {
		switch {
		case !npmVersion().MatchString(f.Version):
		case f.Version == f.Tags.Latest:
			return f.Version
		case highest == "" || higher("v"+f.Version, "v"+highest):
			highest = f.Version
		}
	}
	return highest
}

// higher reports whether npx prefers version a to b: a prerelease is below every release.
func higher(a, b string) bool {
	if early := semver.Prerelease(a) != ""; early != (semver.Prerelease(b) != "") {
		return !early
	}
	return semver.Compare(a, b) > 0
}
