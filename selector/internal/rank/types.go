package rank

import (
	"math"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

// typeWeights says how a value in a task speaks for tools that take one of the types, and
// against those that do not.
//
// The weights are logarithms of likelihood ratios, from tasks of public corpora and the
// schemas of the tools that they need; weights of values that are rare there are set by hand.
var typeWeights = [analysis.NumTypes]struct {
	taken       analysis.Types
	hit, missed float64
}{
	analysis.URLType:      {typeSet(analysis.URLType, analysis.HostType), 0.9, -0.4},
	analysis.HostType:     {typeSet(analysis.HostType, analysis.URLType), 0.5, -0.1},
	analysis.PathType:     {typeSet(analysis.PathType), 0.7, -0.3},
	analysis.NumberType:   {typeSet(analysis.NumberType), 0.3, -0.05},
	analysis.DateType:     {typeSet(analysis.DateType, analysis.QueryType), 0.5, -0.3},
	analysis.QuotedType:   {typeSet(analysis.QuotedType, analysis.NameType), 0.1, -0.1},
	analysis.EmailType:    {typeSet(analysis.EmailType), 0.8, -0.3},
	analysis.IDType:       {typeSet(analysis.IDType), 0.5, -0.3},
	analysis.UserType:     {typeSet(analysis.UserType), 0.5, -0.2},
	analysis.ChannelType:  {typeSet(analysis.ChannelType), 0.8, -0.4},
	analysis.CodeType:     {typeSet(analysis.CodeType, analysis.QueryType), 0.5, -0.3},
	analysis.QueryType:    {typeSet(analysis.QueryType), 1, -0.6},
	analysis.SelectorType: {typeSet(analysis.SelectorType), 0.8, -0.4},
	analysis.CommandType:  {typeSet(analysis.CommandType), 1, -0.4},
	analysis.VariableType: {typeSet(analysis.VariableType, analysis.NameType), 0.4, 0},
}

// lacking weighs the arguments that a tool requires and the task does not have.
const lacking = -0.2

// needed are the types of values of which a person says one if the tool requires it.
var needed = typeSet(analysis.URLType, analysis.PathType, analysis.EmailType, analysis.QueryType, analysis.SelectorType)

func typeSet(all ...analysis.Type) (s analysis.Types) {
	for _, t := range all {
		s = s.With(t)
	}
	return s
}

// values are the values in a task.
type values struct {
	types      analysis.Types
	extensions []string        // of paths, as words
	named      map[string]bool // the task's words, and the words of the hosts in it
}

func valuesOf(t text.Task) (v values) {
	v.named = make(map[string]bool)
	for _, word := range t.Text {
		v.named[word] = true
	}
	for _, l := range t.Literals {
		if l.Type == analysis.URLType || l.Type == analysis.HostType {
			for _, word := range analysis.Words(hostOf(l.Text)) {
				v.named[word] = true
			}
		}
		v.types = v.types.With(l.Type)
		if l.Extension != "" {
			v.extensions = append(v.extensions, analysis.Words(l.Extension)...)
		}
	}
	return v
}

// types returns how far the tool takes the values that are in the task, from -1 to 1.
func (s *scorer) types(d *index.Document) float64 {
	if d.Tool == nil {
		return 0
	}
	sum := 0.0
	for t, w := range typeWeights {
		switch {
		case !s.values.types.Has(analysis.Type(t)):
		case d.Takes&w.taken != 0:
			sum += w.hit
		default:
			sum += w.missed
		}
	}
	for _, extension := range s.values.extensions {
		if _, ok := d.Term(extension); ok {
			sum += 0.5
		}
	}
	if d.Requires&needed != 0 && d.Requires&needed&s.accepted() == 0 {
		sum += lacking
	}
	// A long task has several steps, and no tool takes the values of all.
	return max(-1, min(1, sum/math.Sqrt(float64(max(1, len(s.task.Steps))))))
}

// accepted are the types that parameters may have which take the values in the task.
func (s *scorer) accepted() (all analysis.Types) {
	for t, w := range typeWeights {
		if s.values.types.Has(analysis.Type(t)) {
			all |= w.taken
		}
	}
	return all
}

// hostOf returns the host of a URL without a user.
func hostOf(url string) string {
	_, host, found := strings.Cut(url, "://")
	if !found {
		host = url
	}
	host, _, _ = strings.Cut(host, "/")
	return host
}
