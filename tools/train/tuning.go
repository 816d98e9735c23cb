package main

// A tuning says how a model is trained.
type tuning struct {
	Base       stage   // without the corpora
	Finish     stage   // with them
	Batch      int     // pairs
	Siblings   int     // pairs of one group that are put next to each other
	Rate       float32 // of learning, for vectors
	WeightRate float32 // for weights of words
	Hold       float32 // of the vectors to the first ones
	TurnRate   float32 // for the matrix of tasks
	TurnHold   float32 // of the matrix to one that changes nothing
	Drop       float64 // share of a task's words that is left out
	Extra      int     // dimensions besides those of the file
	Common     int     // words of the file that are taken, the most frequent
	Often      int     // rows of training data with a word that the file lacks or has later
	Sources    map[string]source
}

// A source says how much of a file or source of training data is learned.
type source struct {
	Weight float32 // of each pair in the loss; tasks of corpora weigh 1
	Most   int     // pairs in an epoch
	Each   int     // of them with one positive
}

// defaultTuning is what did best on corpora left out.
func defaultTuning() tuning {
	return tuning{
		Base: stage{6, 1, 0.1, 1}, Finish: stage{3, 0.5, 0.05, 0.5},
		Batch: 512, Siblings: 4, Rate: 2e-3, WeightRate: 4e-3, Hold: 1e-4, TurnRate: 1e-3, Extra: 60, Common: 40_000, Often: 4,
		Sources: map[string]source{
			"tasks-dialogue":        {1, 2000, 40},
			"tasks-intents":         {1, 8000, 25},
			"tasks-commands":        {1, 15000, 4},
			"tasks-apis/toolalpaca": {1, 5000, 4},
			"tasks-apis/tooltalk":   {1, 5000, 4},
			"tasks-apis/apibench":   {0.7, 3000, 2},
			"tasks-apis/mcpm":       {1, 5000, 4},
			"tasks-apis":            {0.4, 10000, 1},
			"names-apis":            {0.5, 25000, 1},
			"names-mcp":             {0.7, 13576, 1},
			"names-commands":        {0.5, 6000, 1},
			"names-functions":       {0.4, 4000, 1},
			"names-npm":             {0.3, 15000, 1},
			"names-pypi":            {0.3, 15000, 1},
			"names-debian":          {0.3, 5000, 1},
			// Their sources state no licence.
			"tasks-apis/openapi:Asana": {},
			"names-apis/openapi:Asana": {},
			"tasks-apis/openapi:plaid": {},
			"names-apis/openapi:plaid": {},
		},
	}
}
