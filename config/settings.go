package config

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/script/stored"
)

// defaultRouter returns the settings of a file without any.
var defaultRouter = sync.OnceValue(func() Router {
	r := defaults[Router](atRouter)
	r.FindThreshold = 0 // package selector has the default
	return r
})

// defaultServer returns an entry without keys.
var defaultServer = sync.OnceValue(func() Server { return defaults[Server](atEntry) })

func routerFields(d *decoder, r *Router) fields {
	return d.keys(r, fields{
		"profiles": profilesField(d, &r.Profiles),
		"http": objectField(d, d.keys(&r.HTTP, fields{
			"oauth":        issuersField(d, &r.HTTP.Issuers),
			"certificates": certificatesField(d, &r.HTTP.Certificates),
		})),
	})
}

// scripts reads the stored scripts that the text names. They belong to the text: they are approved with it,
// and are not read again.
func (s source) scripts() stored.Folder {
	m := sourceMember{s, hujson.ObjectMember{Value: hujson.Value{Value: s.root}}}.inner(atRouter).inner("scripts").inner("folder")
	if folder, ok := jsonc.Text(m.member.Value); ok && folder != "" {
		return stored.Read(s.project(), folder)
	}
	return stored.Folder{}
}

// addScripts adds the server of the stored scripts, unless an entry has its name, and the mistakes in them.
func addScripts(d *decoder, c *Config) {
	const level = atRouter + ".scripts.folder"
	at, folder := d.at(level), &c.Router.Scripts.Folder
	if *folder == "" {
		return
	}
	project, read := d.source.project(), d.source.stored
	*folder = filepath.Join(project, *folder)
	if slices.ContainsFunc(c.Servers, func(s Server) bool { return s.Name == string(Scripts) }) {
		d.warn(at, "the scripts in this folder are no tools, since another server is called %q; rename that", string(Scripts))
		return
	}
	d.name = string(Scripts)
	d.within("it is no tool", func() {
		if read.Err != nil {
			d.mistake(at, "%v", read.Err)
		}
		for _, p := range read.Problems {
			d.source = source{path: filepath.Join(project, p.File), data: p.Text}
			d.mistake(p.Offset, "%v", p.Err)
		}
	})
	if len(read.Scripts) > 0 {
		s := defaultServer()
		s.Name, s.Transport, s.Scripts, s.Validate, s.MaxResultTokens = string(Scripts), Scripts, read.Scripts, c.Router.Validate, c.Router.MaxResultTokens
		c.Servers = append(c.Servers, s)
	}
}

// An Audit says whether and where the audit log is written.
type Audit struct {
	Off      bool   // "audit": false
	File     string `key:"file"`     // absolute path; "" is audit.jsonl in the data folder, of a router that serves over HTTP
	MaxSize  int64  `key:"maxSize"`  // bytes of a file, after which another is begun; default 10 MiB
	MaxFiles int    `key:"maxFiles"` // number of files that are kept, including the current one; default 10
}

// decode also takes the path of the file alone.
func (l *AccessLog) decode(d *decoder, at int, v hujson.Value) error {
	err := d.log(v, l, &l.File)
	if v.Value.Kind() == '{' && !hasMember(v, "file") {
		d.mistake(at, `"accessLog" names no file; write "file": "access.log"`)
	}
	return err
}

// decode also takes the path of the file alone, and false.
func (a *Audit) decode(d *decoder, _ int, v hujson.Value) error {
	if a.Off = v.Value.Kind() == 'f'; a.Off {
		return nil
	}
	return d.log(v, a, &a.File)
}

// log decodes a log: the path of its file, or an object with its keys.
func (d *decoder) log(v hujson.Value, log any, file *string) error {
	switch v.Value.Kind() {
	case '{':
		d.object(v.Value.(*hujson.Object), d.keys(log, nil))
		return nil
	case '"':
		return d.value(d.level, "", v.StartOffset, v, reflect.ValueOf(file).Elem())
	}
	return errors.New(nodeAt(d.level).Says)
}

// hasMember reports whether the object has the member.
func hasMember(object hujson.Value, key string) bool {
	_, ok := jsonc.Member(object.Value.(*hujson.Object), key)
	return ok
}

// RestartKeys returns the keys of "metarouter" in which a and b differ and that take effect
// at the router's next start, such as "http.addr". All other keys take effect when the file is saved.
func RestartKeys(a, b Router) (all []string) {
	is, was := reflect.ValueOf(b.HTTP), reflect.ValueOf(a.HTTP)
	for i := range is.NumField() {
		if tag := is.Type().Field(i).Tag; tag.Get("edit") == "restart" && !is.Field(i).Equal(was.Field(i)) {
			key, _, _ := strings.Cut(tag.Get("key"), ",")
			all = append(all, "http."+key)
		}
	}
	if a.Audit != b.Audit {
		all = append(all, "audit")
	}
	return all
}
