package classify

import "github.com/mcp-metarouter/metarouter/config"

type Lexical struct{ n int }

func NewLexical(c []config.Category) *Lexical { return &Lexical{len(c)} }

func (l *Lexical) Probabilities(text string) []float64 {
	p := make([]float64, l.n)
	for i := range p {
		p[i] = 1 / float64(l.n)
	}
	return p
}

type Answer struct {
	Class         int       `json:"class"`
	Category      string    `json:"category"`
	Confidence    float64   `json:"confidence"`
	Model         string    `json:"model"`
	UseReasoning  bool      `json:"use_reasoning"`
	Probabilities []float64 `json:"probabilities,omitempty"`
	Entropy       float64   `json:"entropy"`
}

func Decide(c *config.Classification, categories []config.Category, text string, p []float64) Answer {
	best := 0
	for i := range p {
		if p[i] > p[best] {
			best = i
		}
	}
	return Answer{Class: best, Category: categories[best].Name, Confidence: p[best], Probabilities: p}
}

func Check(text string, max int) error { return nil }
