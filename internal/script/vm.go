package script

import (
	"context"
	"errors"

	"github.com/tetratelabs/wazero/api"
)

var (
	errNoMemory  = errors.New("no memory is left")
	errException = errors.New("JavaScript threw an exception") // which waits in the interpreter
)

// A vm is an instance of the interpreter. Its methods panic with a failure, which [vm.catch] returns.
type vm struct {
	ctx       context.Context
	mod       api.Module
	memory    *memory
	functions map[string]api.Function // of the module
	layout    layout
}

// A layout says where values lie in the memory.
type layout struct {
	stack, undefined uint64
	prelude          map[string]uint64 // functions
	exception        uint64            // the value that stands for an exception
	args, length     uint64            // three arguments of a function; the length of a text
}

// A failure is a panic.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// catch returns the error of a failure. After an error that is neither errException nor errNoMemory, the state of
// the interpreter is not known.
func (v *vm) catch(do func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	do()
	return nil
}

// close frees the memory.
func (v *vm) close() { _ = v.mod.Close(context.Background()) }

// prepare starts the interpreter and runs the prelude.
func (v *vm) prepare() {
	v.do("_initialize")
	v.do("qjs_init")
	v.do("qjs_set_max_stack_size", maxStack)
	v.do("qjs_set_promise_rejection_handler", 1)
	v.layout = layout{undefined: v.do("qjs_get_undefined"), prelude: map[string]uint64{},
		args: v.do("wasm_malloc", 12), length: v.do("wasm_malloc", 4)}
	name := v.write("prelude")
	v.layout.exception = v.read(v.do("qjs_eval", v.write("throw 0"), 7, name, 0))
	v.do("qjs_get_exception")
	host := v.do("qjs_new_host_function", v.write("host"), 4, 1)
	functions := v.invoke(v.evaluate(prelude, "prelude"), host)
	for _, name := range []string{"begin", "run", "answer", "refuse", "encode", "explain"} {
		v.layout.prelude[name] = v.do("qjs_get_prop_string", functions, v.write(name))
	}
	v.layout.stack = v.stack().Get()
}

func (v *vm) stack() api.MutableGlobal {
	return v.mod.ExportedGlobal("__stack_pointer").(api.MutableGlobal)
}

// do calls a function of the module, whose result has 32 bits. A function can't be called while it runs.
func (v *vm) do(name string, args ...uint64) uint64 {
	f := v.functions[name]
	if f == nil {
		f = v.mod.ExportedFunction(name)
		v.functions[name] = f
	}
	results, err := f.Call(v.ctx, args...)
	if err != nil {
		panic(failure{err})
	}
	if len(results) == 0 {
		return 0
	}
	return uint64(uint32(results[0]))
}

// value calls a function of the module that returns a value, or fails with errException.
func (v *vm) value(name string, args ...uint64) uint64 {
	value := v.do(name, args...)
	if value == 0 {
		panic(failure{errNoMemory})
	}
	if v.read(value) == v.layout.exception {
		panic(failure{errException})
	}
	return value
}

// read reads the eight bytes of a value.
func (v *vm) read(at uint64) uint64 {
	value, _ := v.mod.Memory().ReadUint64Le(uint32(at))
	return value
}

// write copies a text into the memory, with a 0 at its end. The caller frees it.
func (v *vm) write(text string) uint64 {
	at := v.do("wasm_malloc", uint64(len(text)+1))
	if at == 0 {
		panic(failure{errNoMemory})
	}
	v.mod.Memory().WriteString(uint32(at), text)
	v.mod.Memory().WriteByte(uint32(at)+uint32(len(text)), 0)
	return at
}

// string makes a string of JavaScript.
func (v *vm) string(text string) uint64 {
	at := v.write(text)
	value := v.value("qjs_new_string", at, uint64(len(text)))
	v.do("wasm_free", at)
	return value
}

// fitting makes a string of JavaScript; 0 for one that does not fit into the memory.
func (v *vm) fitting(text string) (value uint64) {
	switch err := v.catch(func() { value = v.string(text) }); {
	case errors.Is(err, errException):
		v.do("qjs_get_exception")
	case err != nil && !errors.Is(err, errNoMemory):
		panic(failure{err})
	}
	return value
}

func (v *vm) number(n int64) uint64 { return v.do("qjs_new_number", api.EncodeF64(float64(n))) }

// text reads at most max bytes of a string of JavaScript.
func (v *vm) text(value uint64, max int) string {
	at := v.do("qjs_get_string_len", value, v.layout.length)
	if at == 0 {
		panic(failure{errNoMemory})
	}
	n, _ := v.mod.Memory().ReadUint32Le(uint32(v.layout.length))
	read, _ := v.mod.Memory().Read(uint32(at), min(n, uint32(max)))
	text := string(read)
	v.do("qjs_free_cstring", at)
	return text
}

// evaluate runs code.
func (v *vm) evaluate(code, name string) uint64 {
	return v.value("qjs_eval", v.write(code), uint64(len(code)), v.write(name), 0)
}

// invoke calls a function of JavaScript with up to three arguments. It frees the first, which may be large.
func (v *vm) invoke(function uint64, args ...uint64) uint64 {
	for i, a := range args {
		v.mod.Memory().WriteUint32Le(uint32(v.layout.args)+uint32(4*i), uint32(a))
	}
	value := v.value("qjs_call", function, v.layout.undefined, uint64(len(args)), v.layout.args)
	v.do("qjs_free_value", args[0])
	return value
}
