package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/internal/approval"
)

var (
	errNotAgreed = errors.New("you did not agree")
	errNoPerson  = errors.New("no person can be asked here; run the command on a terminal, or add --yes")
)

// personFor returns who agrees to the call of a command, where a profile asks first: the
// person who typed --yes, or the one at the terminal.
func personFor(env *environment, yes bool) approval.Person {
	return func(ctx context.Context, question string) (approval.Answer, error) {
		switch {
		case yes:
			return approval.Accept, nil
		case env.running != nil:
			return env.running.answer(question)
		case !env.CanAsk():
			return "", errNoPerson
		}
		agreed, err := agrees(ctx, env, question)
		switch {
		case err != nil:
			return "", err
		case !agreed:
			return "", errNotAgreed
		}
		return approval.Accept, nil
	}
}

// answer answers a question for the person at the terminal of another process, who has agreed
// to it already or is to be asked there.
func (h *hosted) answer(question string) (approval.Answer, error) {
	switch {
	case question == h.agreed:
		return approval.Accept, nil
	case !h.asks:
		return "", errNoPerson
	}
	h.question = question
	return "", errNotAgreed
}

// agrees asks the person at the terminal.
func agrees(ctx context.Context, env *environment, question string) (yes bool, err error) {
	fmt.Fprintln(env.Err, question)
	return env.Confirm(ctx, "Run it? [y/N]")
}

// notApproved returns why a call was not made, if a person was to be asked first.
func notApproved(err error) error {
	if refused, ok := errors.AsType[*approval.Refused](err); ok {
		return &exit.Error{Code: exit.Failed, Err: refused}
	}
	return nil
}
