package classify

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// The first text does not wait for the training. The end of the router does not, either; a text
// that still comes gets its answer.
func TestTrainedAhead(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	k := New(&config.Classification{Categories: []config.Category{{Name: "a"}, {Name: "b"}}, MaxText: 100}, nil, "", zap.NewNop())
	k.Train(ended)
	if _, err := k.Classify(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("it was trained after the end, with the error %v", err)
	}
	k.Train(t.Context())
	_, err := k.Classify(ended, "a")
	expect.OK(t, err, "Train has not trained it")
}

// If the client leaves, its text does not wait until another call has trained the built-in classifier.
func TestTrainingWaits(t *testing.T) {
	k := New(&config.Classification{Categories: []config.Category{{Name: "a"}, {Name: "b"}}, MaxText: 100}, nil, "", zap.NewNop())
	k.training <- struct{}{} // another call trains
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Classify(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-k.training
	_, err := k.Classify(t.Context(), "a")
	expect.OK(t, err)
}

// Texts that can't be classified are refused with the reason, as every text is without categories.
func TestBadTexts(t *testing.T) {
	k := New(&config.Classification{Categories: []config.Category{{Name: "a"}}, MaxText: 10}, nil, "", zap.NewNop())
	for text, says := range map[string]string{"": "is empty", " \n": "is empty", "a\xff": "not valid UTF-8", "more than ten": "raise max_text"} {
		_, err := k.Classify(t.Context(), text)
		expect.Contains(t, fmt.Sprint(err), says, "%q", text)
	}
	if _, err := New(nil, nil, "", zap.NewNop()).Classify(t.Context(), "a"); !errors.Is(err, ErrNoCategories) {
		t.Errorf("%v", err)
	}
}

// Clients that may know the same tags share a classifier, which is trained once; their number is bounded.
func TestWithinTrainsOnce(t *testing.T) {
	var tags []config.Category
	for i := range 2 * maxWithin {
		tags = append(tags, config.Category{Name: fmt.Sprint(i)})
	}
	k := New(&config.Classification{MaxText: 100}, tags, "", zap.NewNop())
	some := k.Within(map[string]int{"1": 1, "2": 3})
	_, err := some.Classify(t.Context(), "one")
	expect.OK(t, err)
	again := k.Within(map[string]int{"2": 1, "1": 1, "0": 0, "none": 1})
	if again != some || again.trained.Load() == nil {
		t.Error("the same tags have another classifier")
	}
	if other := k.Within(map[string]int{"1": 1}); other == some {
		t.Error("other tags have the same classifier")
	}
	for i := range 2 * maxWithin {
		k.Within(map[string]int{fmt.Sprint(i): 1})
	}
	if n := len(k.within); n > maxWithin {
		t.Errorf("%d classifiers are kept", n)
	}
}
