package frame

import (
	"encoding/json"
	"strconv"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// appendHeader appends a header as encoding/json writes it. It is written by hand since
// encoding/json would take a tenth of the time of a call; members that are not in every call are
// left to encoding/json.
func appendHeader(b []byte, h *Header) ([]byte, error) {
	b = appendText(b, `{"kind":`, string(h.Kind))
	b = appendAddress(append(b, `,"from":`...), h.From)
	if h.To != (Address{}) {
		b = appendAddress(append(b, `,"to":`...), h.To)
	}
	b = strconv.AppendInt(append(b, `,"time":`...), h.Time, 10)
	b = appendIf(b, `,"call":`, h.Call)
	if h.Seq != 0 {
		b = strconv.AppendUint(append(b, `,"seq":`...), h.Seq, 10)
	}
	b = appendIf(b, `,"nonce":`, h.Nonce)
	b = appendIf(b, `,"home":`, h.Home)
	for i, id := range h.Ended {
		if i == 0 {
			b = appendText(b, `,"ended":[`, id)
		} else {
			b = appendText(b, `,`, id)
		}
	}
	if len(h.Ended) > 0 {
		b = append(b, ']')
	}
	b = appendIf(b, `,"server":`, h.Server)
	b = appendIf(b, `,"uri":`, h.URI)
	b = appendBody(b, h)
	var err error
	if h.Offer != nil {
		if b, err = appendOffer(append(b, `,"offer":`...), h.Offer); err != nil {
			return nil, err
		}
	}
	if h.Result != nil {
		b = appendResult(append(b, `,"result":`...), h.Result)
	}
	if b, err = appendRare(b, h); err != nil {
		return nil, err
	}
	return append(b, '}'), nil
}

func appendText(b []byte, before, text string) []byte {
	return wire.AppendString(append(b, before...), text)
}

func appendIf(b []byte, before, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(b, before, text)
}

func appendTrue(b []byte, before string, is bool) []byte {
	if is {
		b = append(append(b, before...), "true"...)
	}
	return b
}

func appendAddress(b []byte, a Address) []byte {
	b = appendText(b, `{"Key":`, a.Key)
	b = appendText(b, `,"Instance":`, a.Instance)
	return append(b, '}')
}

func appendBody(b []byte, h *Header) []byte {
	if h.Body != nil {
		b = appendText(b, `,"body":{"id":`, h.Body.ID)
		b = strconv.AppendInt(append(b, `,"size":`...), h.Body.Size, 10)
		b = appendText(b, `,"sum":`, h.Body.Sum)
		b = append(b, '}')
	}
	if h.Part != nil {
		b = appendText(b, `,"part":{"body":`, h.Part.Body)
		b = strconv.AppendInt(append(b, `,"offset":`...), h.Part.Offset, 10)
		if h.Part.Length != 0 {
			b = strconv.AppendInt(append(b, `,"length":`...), h.Part.Length, 10)
		}
		b = append(b, '}')
	}
	return b
}

func appendOffer(b []byte, o *CallOffer) (_ []byte, err error) {
	b = appendText(b, `{"method":`, o.Method)
	b = appendIf(b, `,"tool":`, o.Tool)
	b = appendTrue(b, `,"direct":`, o.Direct)
	if o.Timeout != 0 {
		b = strconv.AppendInt(append(b, `,"timeout_ms":`...), o.Timeout, 10)
	}
	if b, err = appendJSON(b, `,"meta":`, o.Meta); err != nil {
		return nil, err
	}
	b = appendIf(b, `,"client":`, o.Client)
	b = appendTrue(b, `,"modern":`, o.Modern)
	if b, err = appendJSON(b, `,"capabilities":`, o.Capabilities); err != nil {
		return nil, err
	}
	if b, err = appendOrigin(b, &o.Origin); err != nil {
		return nil, err
	}
	return append(b, '}'), nil
}

// appendOrigin appends the origin of an offer, unless it is empty.
func appendOrigin(b []byte, o *session.Origin) (_ []byte, err error) {
	if o.Profile == "" && o.Rules == nil && o.Principal == "" && o.Name == "" && o.As == "" {
		return b, nil
	}
	b = append(b, `,"origin":{`...)
	begin := len(b)
	b = appendIf(b, `,"profile":`, o.Profile)
	if b, err = appendJSON(b, `,"rules":`, o.Rules); err != nil {
		return nil, err
	}
	b = appendIf(b, `,"principal":`, o.Principal)
	b = appendIf(b, `,"name":`, o.Name)
	b = appendIf(b, `,"as":`, o.As)
	if len(b) > begin { // without the first comma
		b = append(b[:begin], b[begin+1:]...)
	}
	return append(b, '}'), nil
}

// appendJSON appends a text that is JSON, on one line, unless it is empty. The error says that it
// is not JSON.
func appendJSON(b []byte, before string, text json.RawMessage) ([]byte, error) {
	if len(text) == 0 {
		return b, nil
	}
	if !wire.Valid(text) || wire.HasLineEnd(text) {
		compact, err := json.Marshal(text)
		if err != nil {
			return nil, err
		}
		text = compact
	}
	return append(append(b, before...), text...), nil
}

func appendResult(b []byte, r *CallResult) []byte {
	b = appendText(b, `{"server":`, r.Server)
	b = appendText(b, `,"method":`, r.Method)
	b = appendIf(b, `,"tool":`, r.Tool)
	b = appendText(b, `,"arguments":`, r.Arguments)
	b = appendTrue(b, `,"degraded":`, r.Degraded)
	b = appendTrue(b, `,"kept":`, r.Kept)
	return append(b, '}')
}

// appendRare appends the members that few frames have.
func appendRare(b []byte, h *Header) (_ []byte, err error) {
	if h.Error != nil {
		if b, err = appendAny(b, `,"error":`, h.Error); err != nil {
			return nil, err
		}
	}
	b = appendTrue(b, `,"running":`, h.Running)
	if h.Message != nil {
		if b, err = appendAny(b, `,"message":`, h.Message); err != nil {
			return nil, err
		}
	}
	if h.Beat != nil {
		return appendAny(b, `,"beat":`, h.Beat)
	}
	return b, nil
}

func appendAny(b []byte, before string, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(append(b, before...), text...), nil
}
