package frame

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// decodeHeader reads a header, which it does not keep. Members that it does not know are ignored;
// null is like an absent member. Like [appendHeader], it leaves to encoding/json members that are
// not in every call.
func decodeHeader(text []byte, h *Header) error {
	return each(text, func(key string, value []byte) error {
		switch key {
		case "kind":
			return decodeText(value, &h.Kind)
		case "from":
			return decodeAddress(value, &h.From)
		case "to":
			return decodeAddress(value, &h.To)
		case "time":
			return decodeInt(value, &h.Time)
		case "call":
			return decodeText(value, &h.Call)
		case "seq":
			return json.Unmarshal(value, &h.Seq)
		case "nonce":
			return decodeText(value, &h.Nonce)
		case "home":
			return decodeText(value, &h.Home)
		case "ended":
			return decodeTexts(value, &h.Ended)
		case "server":
			return decodeText(value, &h.Server)
		case "uri":
			return decodeText(value, &h.URI)
		case "running":
			return decodeBool(value, &h.Running)
		}
		return decodeParts(key, value, h)
	})
}

// decodeParts reads a member that is an object.
func decodeParts(key string, value []byte, h *Header) error {
	if isNull(value) {
		return nil
	}
	switch key {
	case "body":
		h.Body = new(Body)
		return decodeBody(value, h.Body)
	case "part":
		h.Part = new(Range)
		return decodeRange(value, h.Part)
	case "offer":
		h.Offer = new(CallOffer)
		return decodeOffer(value, h.Offer)
	case "result":
		h.Result = new(CallResult)
		return decodeResult(value, h.Result)
	case "error":
		return json.Unmarshal(value, &h.Error)
	case "message":
		return json.Unmarshal(value, &h.Message)
	case "beat":
		return json.Unmarshal(value, &h.Beat)
	}
	return nil
}

func decodeAddress(text []byte, a *Address) error {
	return each(text, func(key string, value []byte) error {
		switch key {
		case "Key":
			return decodeText(value, &a.Key)
		case "Instance":
			return decodeText(value, &a.Instance)
		}
		return nil
	})
}

func decodeBody(text []byte, b *Body) error {
	return each(text, func(key string, value []byte) error {
		switch key {
		case "id":
			return decodeText(value, &b.ID)
		case "size":
			return decodeInt(value, &b.Size)
		case "sum":
			return decodeText(value, &b.Sum)
		}
		return nil
	})
}

func decodeRange(text []byte, r *Range) error {
	return each(text, func(key string, value []byte) error {
		switch key {
		case "body":
			return decodeText(value, &r.Body)
		case "offset":
			return decodeInt(value, &r.Offset)
		case "length":
			return decodeInt(value, &r.Length)
		}
		return nil
	})
}

func decodeOffer(text []byte, o *CallOffer) error {
	return each(text, func(key string, value []byte) error {
		switch key {
		case "method":
			return decodeText(value, &o.Method)
		case "tool":
			return decodeText(value, &o.Tool)
		case "direct":
			return decodeBool(value, &o.Direct)
		case "timeout_ms":
			return decodeInt(value, &o.Timeout)
		case "meta":
			o.Meta = bytes.Clone(value)
		case "client":
			return decodeText(value, &o.Client)
		case "modern":
			return decodeBool(value, &o.Modern)
		case "capabilities":
			o.Capabilities = bytes.Clone(value)
		case "origin":
			return decodeOrigin(value, &o.Origin)
		}
		return nil
	})
}

func decodeOrigin(text []byte, o *session.Origin) error {
	return each(text, func(key string, value []byte) error {
		switch key {
		case "profile":
			return decodeText(value, &o.Profile)
		case "rules":
			o.Rules = bytes.Clone(value)
		case "principal":
			return decodeText(value, &o.Principal)
		case "name":
			return decodeText(value, &o.Name)
		case "as":
			return decodeText(value, &o.As)
		}
		return nil
	})
}

func decodeResult(text []byte, r *CallResult) error {
	return each(text, func(key string, value []byte) error {
		switch key {
		case "server":
			return decodeText(value, &r.Server)
		case "method":
			return decodeText(value, &r.Method)
		case "tool":
			return decodeText(value, &r.Tool)
		case "arguments":
			return decodeText(value, &r.Arguments)
		case "degraded":
			return decodeBool(value, &r.Degraded)
		case "kept":
			return decodeBool(value, &r.Kept)
		}
		return nil
	})
}

// each calls f with the members of an object, up to the first error. null is an empty object.
func each(object []byte, f func(key string, value []byte) error) error {
	if isNull(object) {
		return nil
	}
	var failed error
	if err := wire.Members(object, func(key string, value []byte) bool {
		failed = f(key, value)
		return failed == nil
	}); err != nil {
		return err
	}
	return failed
}

func isNull(value []byte) bool { return string(value) == "null" }

// decodeText reads a string. One that is not as usual, or is no string, is left to encoding/json.
func decodeText[T ~string](value []byte, to *T) error {
	if len(value) < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 || !utf8.Valid(value) {
		return json.Unmarshal(value, to)
	}
	*to = T(value[1 : len(value)-1])
	return nil
}

func decodeTexts(value []byte, to *[]string) error {
	if isNull(value) {
		return nil
	}
	*to = nil
	var failed error
	if err := wire.Elements(value, func(value []byte) bool {
		var text string
		failed = decodeText(value, &text)
		*to = append(*to, text)
		return failed == nil
	}); err != nil {
		return err
	}
	return failed
}

func decodeInt(value []byte, to *int64) error {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil { // null, or no value that fits
		return json.Unmarshal(value, to)
	}
	*to = n
	return nil
}

func decodeBool(value []byte, to *bool) error {
	switch string(value) {
	case "true":
		*to = true
	case "false":
		*to = false
	default:
		return json.Unmarshal(value, to)
	}
	return nil
}
