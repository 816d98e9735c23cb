package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// namesOf returns the constants of the Go files in a folder whose name ends so, in the order of
// the one declaration that has them.
func namesOf(folder, suffix string) (names []string, err error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				for _, spec := range g.Specs {
					for _, n := range spec.(*ast.ValueSpec).Names {
						if strings.HasSuffix(n.Name, suffix) && n.Name != "Num"+suffix {
							names = append(names, n.Name)
						}
					}
				}
			}
		}
	}
	return names, nil
}

// rankNames returns the names of features and of evidence in the source of package rank.
func rankNames(folder string) (features, evidence []string, err error) {
	if features, err = namesOf(folder, "Feature"); err != nil {
		return nil, nil, err
	}
	if evidence, err = namesOf(folder, "Evidence"); err != nil {
		return nil, nil, err
	}
	if len(features) != numFeatures || len(evidence) != numEvidence {
		return nil, nil, fmt.Errorf("-rank %s: found the features %q and the evidence %q, want %d and %d", folder, features, evidence, numFeatures, numEvidence)
	}
	return features, evidence, nil
}

// indexes are those of names.
func indexes(names []string, of ...string) (all []int) {
	for _, name := range of {
		if i := slices.Index(names, name); i >= 0 {
			all = append(all, i)
		}
	}
	return all
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
