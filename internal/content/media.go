package content

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A medium is a picture or a sound as a model can take it, or the text that stands for it.
type medium struct {
	kind string // "image", "audio" or "text"
	mime string
	data []byte // in base64, if kind is not "text"; nil if it stays as it is
	text string // if kind is "text"
	what string // was done; "" if nothing was
}

// into returns the object with the type and the data of the medium.
func (m *medium) into(object []byte, member string) []byte {
	object = wire.SetMember(object, "mimeType", wire.AppendString(nil, m.mime))
	if m.data == nil {
		return object
	}
	return wire.SetMember(object, member, slices.Concat([]byte(`"`), m.data, []byte(`"`)))
}

// examine judges a picture or a sound by its first bytes. value is a JSON string.
func examine(kind, declared string, value []byte) medium {
	data := value[1 : len(value)-1]
	if bytes.IndexByte(data, '\\') >= 0 {
		text, _ := wire.String(value)
		data = []byte(text)
	}
	m := medium{kind: kind, mime: declared}
	var did []string
	var whole []byte // decoded, if it had to be
	if !isBase64(data) {
		var ok bool
		if whole, ok = decode(data); !ok {
			if bytes.HasPrefix(bytes.TrimSpace(data), []byte("<")) { // an SVG as it is
				return asText(declared, "text/xml", string(data))
			}
			return noted(kind, declared, fmt.Sprintf("its data is not base64: %q", brief(string(data))))
		}
		m.data = base64.StdEncoding.AppendEncode(nil, whole)
		did = append(did, "made the data plain base64")
		data = m.data
	}
	if len(data) == 0 {
		return noted(kind, declared, "its data is empty")
	}
	sniffed := sniff(kind, data)
	switch major, _, _ := strings.Cut(sniffed, "/"); {
	case major == "text":
		if whole == nil {
			whole, _ = base64.StdEncoding.AppendDecode(nil, data)
		}
		if utf8.Valid(whole) {
			return asText(declared, sniffed, string(whole))
		}
		return noted(kind, declared, "its data is neither a picture nor a sound")
	case major == "image" || major == "audio":
		if m.kind = major; major != kind || declared != sniffed && !slices.Contains(aliases[sniffed], declared) {
			m.mime = sniffed
			did = append(did, fmt.Sprintf("corrected the type %q to %s", brief(declared), sniffed))
		}
	case declared == "", kind == "image" && slices.Contains(pictures, strings.ToLower(declared)):
		return noted(kind, declared, "its data is something else")
	}
	m.what = strings.Join(did, ", ")
	return m
}

// pictures are the types that no bytes without their signature have.
var pictures = []string{"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"}

// aliases are further names in use for a type.
var aliases = map[string][]string{
	"audio/wav":    {"audio/wave", "audio/x-wav", "audio/vnd.wave"},
	"audio/mpeg":   {"audio/mp3", "audio/mpeg3", "audio/x-mpeg"},
	"audio/ogg":    {"audio/opus", "audio/vorbis", "application/ogg"},
	"audio/aiff":   {"audio/x-aiff"},
	"audio/flac":   {"audio/x-flac"},
	"audio/midi":   {"audio/x-midi", "audio/mid"},
	"image/x-icon": {"image/vnd.microsoft.icon", "image/ico"},
}

// sniff returns the type of the data by its first bytes.
func sniff(kind string, data []byte) string {
	const enough = 512 / 3 * 4 // characters; DetectContentType looks at 512 bytes
	head, _ := base64.StdEncoding.AppendDecode(nil, data[:min(len(data), enough)])
	mime, _, _ := strings.Cut(http.DetectContentType(head), ";")
	switch {
	case mime == "audio/wave":
		return "audio/wav"
	case mime == "application/ogg" && kind == "audio":
		return "audio/ogg"
	case bytes.HasPrefix(head, []byte("fLaC")):
		return "audio/flac"
	case kind == "audio" && len(head) > 1 && head[0] == 0xff && slices.Contains([]byte{0xfb, 0xf3, 0xf2, 0xfa}, head[1]):
		return "audio/mpeg" // a frame without a tag before it
	}
	return mime
}

// standard has the characters of base64.
const standard = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// isBase64 reports whether the data is standard base64 with padding.
func isBase64(data []byte) bool {
	body := bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("=")), []byte("="))
	return len(data)%4 == 0 && len(bytes.TrimLeft(body, standard)) == 0
}

// decode returns the bytes of a data URL, or of base64 with line ends, without padding or in the
// alphabet for URLs.
func decode(data []byte) (whole []byte, ok bool) {
	if len(data) > 5 && bytes.EqualFold(data[:5], []byte("data:")) {
		head, rest, found := bytes.Cut(data, []byte(","))
		if !found {
			return nil, false
		}
		if !bytes.Contains(bytes.ToLower(head), []byte(";base64")) {
			text, err := url.PathUnescape(string(rest))
			return []byte(text), err == nil
		}
		data = rest
	}
	plain := bytes.Map(func(c rune) rune {
		switch c {
		case ' ', '\t', '\r', '\n':
			return -1
		case '-':
			return '+'
		case '_':
			return '/'
		}
		return c
	}, data)
	whole, err := base64.RawStdEncoding.AppendDecode(nil, bytes.TrimRight(plain, "="))
	return whole, err == nil
}

// asText returns the medium for a text, such as an SVG.
func asText(declared, mime, text string) medium {
	m := medium{kind: "text", mime: mime, text: text, what: "made text, since it is no picture or sound that models take"}
	if strings.Contains(declared, "svg") {
		m.mime = declared
	}
	return m
}

// noted returns the text that says why there is no picture or sound.
func noted(kind, declared, why string) medium {
	text := fmt.Sprintf("[The tool returned an %s of type %q that can't be shown: %s]", kind, brief(declared), why)
	return medium{kind: "text", mime: "text/plain", text: text, what: "replaced by a note, since " + why}
}

// brief returns the beginning of a server's text.
func brief(text string) string { return prose.Cut(text, 200) }
