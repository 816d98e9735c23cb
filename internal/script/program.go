package script

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// quickjs is QuickJS-NG for WebAssembly, of the npm package quickjs-wasi. tools/quickjs has changed it: all its loops
// call host_interrupt now and then, which stops the script, and lets Go's garbage collector stop the goroutine.
//
//go:embed quickjs.wasm
var quickjs []byte

//go:embed prelude.js
var prelude string

const (
	codeName = "script"  // the script's code in stack traces
	maxStack = 256 << 10 // bytes of C's stack; the module has 1 MiB
	minImage = 21 << 16  // bytes of memory that the module needs
	maxImage = 4 << 20   // bytes of memory that the prelude may need
)

// A program is the compiled interpreter, with the memory of an instance that has run the prelude. Each script has
// an instance with a copy of that memory.
type program struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
	image   []byte
	layout  layout
}

// load compiles the interpreter. Where no memory can be made executable, WebAssembly is interpreted.
func load(cacheDir string, b *budget) (*program, error) {
	p, err := compile(wazero.NewRuntimeConfig(), cacheDir)
	if err != nil && cacheDir != "" { // the folder may be damaged, or full
		p, err = compile(wazero.NewRuntimeConfig(), "")
	}
	if err != nil {
		p, err = compile(wazero.NewRuntimeConfigInterpreter(), "")
	}
	if err != nil {
		return nil, err
	}
	m, err := newMemory(b, minImage, maxImage)
	if err != nil {
		return nil, err
	}
	v, err := p.instantiate(context.WithValue(context.Background(), hostKey{}, &run{began: time.Unix(0, 0)}), m)
	if err != nil {
		return nil, err
	}
	defer v.close()
	if err := v.catch(v.prepare); err != nil {
		return nil, fmt.Errorf("start QuickJS: %w", err)
	}
	p.image, p.layout = bytes.Clone(m.reserved[:m.used]), v.layout
	return p, nil
}

func compile(config wazero.RuntimeConfig, cacheDir string) (p *program, err error) {
	defer func() {
		if r := recover(); r != nil { // wazero panics if memory can't be made executable
			err = fmt.Errorf("compile QuickJS: %v", r)
		}
	}()
	ctx := context.Background()
	if cacheDir != "" {
		if cache, err := wazero.NewCompilationCacheWithDir(cacheDir); err == nil && hasFilesOnly(cacheDir) {
			config = config.WithCompilationCache(cache)
		}
	}
	p = &program{runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	if err := p.imports(ctx); err != nil {
		return nil, err
	}
	p.module, err = p.runtime.CompileModule(ctx, quickjs)
	return p, err
}

// hasFilesOnly reports whether a folder has no link, pipe or device: the cache opens whatever is there.
func hasFilesOnly(folder string) bool {
	return filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !e.Type().IsRegular() {
			err = safefile.ErrIrregular
		}
		return err
	}) == nil
}

// instantiate makes an instance, which frees the memory.
func (p *program) instantiate(ctx context.Context, m *memory) (*vm, error) {
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	mod, err := p.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, m), p.module, config)
	if err != nil {
		m.Free()
		return nil, fmt.Errorf("start QuickJS: %w", err)
	}
	return &vm{ctx: ctx, mod: mod, memory: m, functions: map[string]api.Function{}, layout: p.layout}, nil
}

// start makes an instance that has run the prelude.
func (p *program) start(ctx context.Context, b *budget, max int64) (*vm, error) {
	m, err := newMemory(b, int64(len(p.image)), max)
	if err != nil {
		return nil, err
	}
	v, err := p.instantiate(ctx, m)
	if err != nil {
		return nil, err
	}
	v.mod.Memory().Grow(uint32(len(p.image)>>16) - v.mod.Memory().Size()>>16) // the bytes are there
	copy(m.reserved, p.image)
	v.stack().Set(p.layout.stack)
	return v, nil
}

// imports defines the functions that the module gets: no files, no network, and a clock that stands still.
func (p *program) imports(ctx context.Context) error {
	i32, i64 := api.ValueTypeI32, api.ValueTypeI64
	env, wasi := p.runtime.NewHostModuleBuilder("env"), p.runtime.NewHostModuleBuilder("wasi_snapshot_preview1")
	define := func(b wazero.HostModuleBuilder, name string, f api.GoModuleFunc, params ...api.ValueType) {
		b.NewFunctionBuilder().WithGoModuleFunction(f, params, []api.ValueType{i32}).Export(name)
	}
	zero := func(_ context.Context, _ api.Module, s []uint64) { s[0] = 0 }
	noFile := func(_ context.Context, _ api.Module, s []uint64) { s[0] = 8 } // EBADF
	define(env, "host_get_timezone_offset", zero, i32, i32)
	define(env, "host_interrupt", func(ctx context.Context, _ api.Module, s []uint64) {
		if r := ctx.Value(hostKey{}).(*run); r.cpu != nil {
			if err := r.cpu.yield(ctx, r.clock); err != nil {
				panic(failure{err})
			}
		}
		s[0] = 0
	})
	define(env, "host_module_normalize", zero, i32, i32)
	define(env, "host_module_load", zero, i32, i32)
	define(env, "host_call", hostCall, i32, i32, i32, i32, i32)
	env.NewFunctionBuilder().WithFunc(func(ctx context.Context, promise, reason, handled uint32) {
		r := ctx.Value(hostKey{}).(*run)
		r.unawaited.note(r.vm, rejection{uint64(promise), uint64(reason)}, handled != 0)
	}).Export("host_promise_rejection")
	define(wasi, "fd_close", noFile, i32)
	define(wasi, "fd_fdstat_get", noFile, i32, i32)
	define(wasi, "fd_seek", noFile, i32, i64, i32, i32)
	define(wasi, "fd_write", noFile, i32, i32, i32, i32)
	define(wasi, "random_get", zero, i32, i32)
	define(wasi, "clock_time_get", func(ctx context.Context, mod api.Module, s []uint64) {
		now := uint64(0)
		if uint32(s[0]) == 0 { // the time of the day; other clocks stand at 0
			now = uint64(ctx.Value(hostKey{}).(*run).began.UnixNano())
		}
		mod.Memory().WriteUint64Le(uint32(s[2]), now)
		s[0] = 0
	}, i32, i64, i32)
	if _, err := env.Instantiate(ctx); err != nil {
		return err
	}
	_, err := wasi.Instantiate(ctx)
	return err
}
