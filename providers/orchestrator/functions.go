package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter/functions"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A span is what days_between takes: the schema of the tool is made of it.
type span struct {
	From string `json:"from" jsonschema:"the first date, such as 2026-01-31"`
	To   string `json:"to" jsonschema:"the last date"`
}

// days is what it returns.
type days struct {
	Days int `json:"days"`
}

func daysBetween(_ context.Context, in span) (days, error) {
	from, err := time.Parse(time.DateOnly, in.From)
	to, err2 := time.Parse(time.DateOnly, in.To)
	if err := errors.Join(err, err2); err != nil {
		return days{}, fmt.Errorf("write dates as 2026-01-31: %w", err)
	}
	return days{int(to.Sub(from).Hours() / 24)}, nil
}

// dice are what roll_dice takes.
type dice struct {
	Count int `json:"count,omitempty" jsonschema:"how many dice; 1 if absent"`
}

func rollDice(_ context.Context, in dice) ([]int, error) {
	if in.Count > 100 {
		return nil, errors.New("there are 100 dice and no more")
	}
	rolls := make([]int, max(in.Count, 1))
	for i := range rolls {
		rolls[i] = 1 + rand.N(6)
	}
	return rolls, nil
}

// ownFunctions returns the program's own functions as tools.
func ownFunctions() (*functions.Provider, error) {
	own := functions.New("own", functions.Options{Timeout: 10 * time.Second})
	harmless := registry.Hints{ReadOnly: new(true)}
	return own, errors.Join(
		functions.Add(own, functions.Function{
			Name: "days_between", Description: "Count the days between two dates of the calendar.",
			Capabilities: []string{"time"}, Hints: harmless,
		}, daysBetween),
		functions.Add(own, functions.Function{
			Name: "roll_dice", Description: "Roll dice and say what they show.", Hints: harmless,
		}, rollDice),
	)
}
