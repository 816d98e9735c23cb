package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
)

// fields are the keys that an object may have, each with the function that decodes it.
type fields map[string]func(hujson.ObjectMember)

// keys adds to known the functions that decode the keys of the struct to which to points.
// The tag "key" of a field has its keys, with dots before the keys of inner objects, and after a comma
// which other values may stand for an array ("one" is one of its strings), or "empty" if an empty array differs from an absent one. The
// schema says how values are read, and which fit.
func (d *decoder) keys(to any, known fields) fields {
	if known == nil {
		known = make(fields)
	}
	inner := make(map[string]fields)
	value := reflect.ValueOf(to).Elem()
	for i := range value.NumField() {
		names, how, _ := strings.Cut(value.Type().Field(i).Tag.Get("key"), ",")
		for key := range strings.FieldsSeq(names) {
			outer, key, nested := strings.Cut(key, ".")
			switch {
			case inner[outer] != nil:
			case known[outer] != nil:
				continue
			case !nested:
				known[outer] = d.field(value.Field(i), how)
				continue
			default:
				inner[outer] = make(fields)
				known[outer] = objectField(d, inner[outer])
			}
			inner[outer][key] = d.field(value.Field(i), how)
		}
	}
	return known
}

// defaults returns a struct with the defaults of the schema for the keys of a level.
func defaults[T any](level string) (all T) {
	setDefaults(level, reflect.ValueOf(&all).Elem())
	return all
}

func setDefaults(level string, of reflect.Value) {
	for i := range of.NumField() {
		names, how, _ := strings.Cut(of.Type().Field(i).Tag.Get("key"), ",")
		key, _, _ := strings.Cut(names, " ")
		path, to := keys.Below(level, key), of.Field(i)
		if said := nodeAt(path).Default; key != "" && isObject(to) {
			setDefaults(path, to)
		} else if key != "" && said != nil {
			v, err := hujson.Parse(said)
			if err = cmp.Or(err, new(decoder).value(path, how, 0, v, to)); err != nil {
				panic(err) // a test reads the schema
			}
		}
	}
}

// isObject reports whether a field of a struct is an object of the file.
func isObject(field reflect.Value) bool {
	return field.Kind() == reflect.Struct && field.Type() != reflect.TypeFor[Rate]()
}

// field returns the function that decodes a member into a field of a struct.
func (d *decoder) field(to reflect.Value, how string) func(hujson.ObjectMember) {
	if _, ok := to.Addr().Interface().(selfDecoder); isObject(to) && !ok {
		return objectField(d, d.keys(to.Addr().Interface(), nil))
	}
	return func(m hujson.ObjectMember) {
		if k := to.Kind(); (k == reflect.Slice || k == reflect.Map) && nodeAt(keys.Below(d.level, "*")).Reads == "secrets" {
			m = d.repaired(m)
		}
		d.reportMisfit(m, to, d.value(d.level, how, m.Name.StartOffset, m.Value, to))
	}
}

// to returns the function that decodes a member into the value of a pointer, as keys does.
func (d *decoder) to(pointer any) func(hujson.ObjectMember) {
	return d.field(reflect.ValueOf(pointer).Elem(), "")
}

// set returns the function that decodes a member into to.
func set[T any](d *decoder, to *T, read reader[T]) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		d.reportMisfit(m, reflect.ValueOf(to).Elem(), into(to, read, m.Value))
	}
}

// A reader makes a T of a JSON value. Its error completes a sentence that begins with the
// key: "must be …".
type reader[T any] func(hujson.Value) (T, error)

// into sets to, unless the value does not fit.
func into[T any](to *T, read reader[T], v hujson.Value) error {
	value, err := read(v)
	if err == nil {
		*to = value
	}
	return err
}

// A selfDecoder decodes itself. at is the place of the value's key; in an array, it is the place of the
// value. The error completes a sentence that begins with the key.
type selfDecoder interface {
	decode(d *decoder, at int, v hujson.Value) error
}

// value decodes the value at a level. After an error, the destination is as it was.
func (d *decoder) value(level, how string, at int, v hujson.Value, to reflect.Value) error {
	n := nodeAt(level)
	switch to := to.Addr().Interface().(type) {
	case selfDecoder:
		return to.decode(d, at, v)
	case *bool:
		return into(to, keys.Boolean, v)
	case *int:
		return into(to, n.Integer, v)
	case *int64:
		return into(to, n.Size, v)
	case *float64:
		return into(to, n.Number, v)
	case *time.Duration:
		return into(to, n.Duration, v)
	case *Rate:
		return into(to, keys.Rate, v)
	case *Transport:
		return into(to, transport, v)
	case *json.RawMessage:
		*to = jsonc.Compact(v)
		return nil
	}
	switch to.Kind() {
	case reflect.Map:
		return d.dict(level, how, v, to)
	case reflect.Slice:
		return d.array(level, how, v, to)
	case reflect.Pointer: // to tell a value from the absence of one
		value := reflect.New(to.Type().Elem())
		if value.Elem().Kind() == reflect.Struct {
			setDefaults(level, value.Elem())
		}
		if !to.IsNil() {
			value.Elem().Set(to.Elem())
		}
		err := d.value(level, how, at, v, value.Elem())
		if err == nil {
			to.Set(value)
		}
		return err
	}
	s, err := d.text(n, v)
	if err == nil {
		to.SetString(s)
	}
	return err
}

// array decodes an array.
func (d *decoder) array(level, how string, v hujson.Value, to reflect.Value) error {
	n := nodeAt(level)
	a, ok := v.Value.(*hujson.Array)
	switch {
	case how == "one" && v.Value.Kind() == '"':
		s, err := d.text(n, v)
		if err == nil {
			to.Set(reflect.ValueOf([]string{s}))
		}
		return err
	case !ok:
		return insteadOfArray(n, how, v, to)
	case n.MaxItems > 0 && len(a.Elements) > n.MaxItems:
		return fmt.Errorf("must have at most %d elements; write fewer", n.MaxItems)
	}
	all := reflect.Zero(to.Type())
	if how == "empty" || how == "switch" { // an empty array differs from an absent one
		all = reflect.MakeSlice(to.Type(), 0, len(a.Elements))
	}
	for i, e := range a.Elements {
		value := reflect.New(to.Type().Elem()).Elem()
		if err := d.value(level, how, e.StartOffset, e, value); err != nil {
			return misfitAt(e.StartOffset, fmt.Sprintf("[%d]", i), err)
		}
		all = reflect.Append(all, value)
	}
	to.Set(all)
	return nil
}

// insteadOfArray decodes a value that may stand in the place of an array.
func insteadOfArray(n *keys.Node, how string, v hujson.Value, array reflect.Value) (err error) {
	to, _ := array.Addr().Interface().(*[]string)
	switch kind := v.Value.Kind(); {
	case how == "text": // words, separated by spaces
		var words string
		words, err = keys.Text(v)
		*to = strings.Fields(words)
		for _, word := range *to {
			err = cmp.Or(err, n.Fits(word))
		}
	case how == "switch" && kind == 't': // the roots of the clients
		*to = nil
	case how == "switch" && kind == 'f':
		*to = []string{}
	default:
		err = errors.New(cmp.Or(n.Array, `must be an array of strings; write ["…"]`))
	}
	return err
}

// dict decodes an object with free keys.
func (d *decoder) dict(level, how string, v hujson.Value, to reflect.Value) error {
	members, err := membersOf(level, v)
	if err != nil {
		return err
	}
	all := reflect.MakeMap(to.Type())
	for _, m := range members {
		key, value := jsonc.Key(m), reflect.New(to.Type().Elem()).Elem()
		err := d.value(keys.Below(level, "*"), how, m.Name.StartOffset, m.Value, value)
		if all.MapIndex(reflect.ValueOf(key)).IsValid() {
			err = errTwice
		}
		if names := nodeAt(level).Names; err == nil && names != nil {
			_, err = d.fit(names.Format, m.Name, key)
		}
		if err != nil {
			return misfitAt(m.Name.StartOffset, "."+key, err)
		}
		all.SetMapIndex(reflect.ValueOf(key), value)
	}
	if all.Len() == 0 && how != "text" { // an empty map of scopes allows no scope of ours
		all = reflect.Zero(to.Type())
	}
	to.Set(all)
	return nil
}

var errTwice = errors.New("is here twice; remove one")

// membersOf returns the members of the object with free keys at a level.
func membersOf(level string, v hujson.Value) ([]hujson.ObjectMember, error) {
	n := nodeAt(level)
	o, ok := v.Value.(*hujson.Object)
	switch {
	case !ok:
		return nil, errors.New(cmp.Or(n.Says, `must be an object; write {"…": …}`))
	case n.MaxMembers > 0 && len(o.Members) > n.MaxMembers:
		return nil, fmt.Errorf("must have at most %d keys; write fewer", n.MaxMembers)
	}
	return o.Members, nil
}

// reportMisfit reports why a member can't be decoded into to, unless err is nil.
func (d *decoder) reportMisfit(m hujson.ObjectMember, to reflect.Value, err error) {
	if err == nil {
		return
	}
	wrong, _ := errors.AsType[*misfit](misfitAt(m.Name.StartOffset, "", err))
	if to.Kind() == reflect.Int && to.Int() > 0 && wrong.path == "" {
		wrong.err = fmt.Errorf("%w; write a number such as %d", wrong.err, to.Int())
	}
	d.mistake(wrong.offset, "%q %v", jsonc.Key(m)+wrong.path, wrong.err)
}

// A misfit is a reader's error about a place inside its value.
type misfit struct {
	offset int
	path   string // from the value to the place
	err    error
}

func (m *misfit) Error() string { return m.path + " " + m.err.Error() }

func misfitAt(offset int, path string, err error) error {
	if m, ok := errors.AsType[*misfit](err); ok {
		return &misfit{m.offset, path + m.path, m.err}
	}
	return &misfit{offset, path, err}
}

// objectField returns the function that decodes an object within the object.
func objectField(d *decoder, known fields) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) { d.objectAt(m.Name.StartOffset, m.Value, known) }
}

// objectAt decodes an object with its key at a place.
func (d *decoder) objectAt(at int, v hujson.Value, known fields) {
	if o, ok := v.Value.(*hujson.Object); ok {
		d.object(o, known)
		return
	}
	d.mistake(at, "%q must be an object; write {…}", keys.Last(d.level))
}

// orObject returns the function that decodes a member that may also be an object.
func orObject(d *decoder, field func(hujson.ObjectMember), known fields) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		if m.Value.Value.Kind() == '{' {
			objectField(d, known)(m)
			return
		}
		field(m)
	}
}
