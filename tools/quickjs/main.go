// Command quickjs makes internal/script/quickjs.wasm of the npm package quickjs-wasi: each loop counts down, and calls
// env.host_interrupt each 4,096 rounds. So a host can stop any loop, also those of C, at little cost.
//
//	npm pack quickjs-wasi@3.6.2 && tar -xzf quickjs-wasi-3.6.2.tgz
//	go -C tools run ./quickjs package/quickjs.wasm ../internal/script/quickjs.wasm
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
)

const (
	rounds    = 4096
	interrupt = "host_interrupt"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: quickjs FROM TO")
		os.Exit(2)
	}
	module, err := os.ReadFile(os.Args[1])
	if err == nil {
		module, err = instrument(module)
	}
	if err == nil {
		err = os.WriteFile(os.Args[2], module, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickjs:", err)
		os.Exit(1)
	}
}

// The sections of a module that change or are read.
const (
	importSection = 2
	globalSection = 6
	codeSection   = 10
)

// instrument returns a module whose loops count.
func instrument(module []byte) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the module can't be read: %v", r)
		}
	}()
	in := &reader{module[8:]}
	out = append(out, module[:8]...)
	var count []byte // the instructions that count
	for len(in.rest) > 0 {
		id := in.byte()
		section := in.bytes(in.number())
		switch id {
		case importSection:
			count = append(count, 0x10) // call
			count = binary.AppendUvarint(count, interruptFunction(section))
		case globalSection:
			var global uint64
			section, global = addGlobal(section)
			count = counting(global, count)
		case codeSection:
			section = instrumentCode(section, count)
		}
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(section)))
		out = append(out, section...)
	}
	return out, nil
}

// counting returns the instructions at the head of a loop.
func counting(global uint64, call []byte) (code []byte) {
	g := binary.AppendUvarint(nil, global)
	code = append(append(code, 0x23), g...)                   // global.get
	code = append(code, 0x41, 1, 0x6b)                        // i32.const 1, i32.sub
	code = append(append(code, 0x24), g...)                   // global.set
	code = append(append(code, 0x23), g...)                   // global.get
	code = append(code, 0x45, 0x04, 0x40)                     // i32.eqz, if
	code = append(append(code, 0x41, 0x80, 0x20, 0x24), g...) // i32.const 4096, global.set
	return append(append(append(code, call...), 0x1a), 0x0b)  // call, drop, end
}

// interruptFunction returns the index of the function that is called.
func interruptFunction(section []byte) (index uint64) {
	in := &reader{section}
	for range in.number() {
		in.bytes(in.number())
		name := string(in.bytes(in.number()))
		if kind := in.byte(); kind != 0 {
			panic(fmt.Sprintf("import %s is no function", name))
		}
		in.number()
		if name == interrupt {
			return index
		}
		index++
	}
	panic("no import " + interrupt)
}

// addGlobal adds the counter, and returns its index.
func addGlobal(section []byte) ([]byte, uint64) {
	in := &reader{section}
	n := uint64(in.number())
	out := binary.AppendUvarint(nil, n+1)
	out = append(out, in.rest...)
	return append(out, 0x7f, 1, 0x41, 0x80, 0x20, 0x0b), n // mutable i32, i32.const 4096, end
}

func instrumentCode(section, count []byte) []byte {
	in := &reader{section}
	n := in.number()
	out := binary.AppendUvarint(nil, uint64(n))
	for range n {
		function := instrumentFunction(in.bytes(in.number()), count)
		out = binary.AppendUvarint(out, uint64(len(function)))
		out = append(out, function...)
	}
	return out
}

func instrumentFunction(code, count []byte) []byte {
	var out bytes.Buffer
	in := &reader{code}
	for range in.number() { // locals
		in.number()
		in.byte()
	}
	out.Write(code[:len(code)-len(in.rest)])
	for len(in.rest) > 0 {
		before := in.rest
		op := in.byte()
		in.immediates(op)
		out.Write(before[:len(before)-len(in.rest)])
		if op == 0x03 { // loop
			out.Write(count)
		}
	}
	return out.Bytes()
}

type reader struct{ rest []byte }

func (r *reader) byte() byte { return r.bytes(1)[0] }

func (r *reader) bytes(n int) []byte {
	read := r.rest[:n]
	r.rest = r.rest[n:]
	return read
}

// number reads a number. A long one, of which i64.const has some, has no meaning.
func (r *reader) number() (n int) {
	for shift := 0; ; shift += 7 {
		b := r.byte()
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}

// immediates reads what follows an opcode.
func (r *reader) immediates(op byte) {
	numbers := 0
	switch {
	case op <= 0x01, op == 0x05, op == 0x0b, op == 0x0f, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == 0xd1:
	case op >= 0x02 && op <= 0x04, op == 0x0c, op == 0x0d, op == 0x10, op >= 0x20 && op <= 0x26, op >= 0x3f && op <= 0x42, op == 0xd0, op == 0xd2:
		numbers = 1
	case op == 0x11, op >= 0x28 && op <= 0x3e:
		numbers = 2
	case op == 0x0e: // br_table
		numbers = r.number() + 1
	case op == 0x1c: // select with types
		numbers = r.number()
	case op == 0x43:
		r.bytes(4)
	case op == 0x44:
		r.bytes(8)
	case op == 0xfc:
		switch more := r.number(); {
		case more == 9 || more == 11 || more == 13 || more >= 15 && more <= 17:
			numbers = 1
		case more == 8 || more == 10 || more == 12 || more == 14:
			numbers = 2
		case more > 17:
			panic(fmt.Sprintf("opcode 0xfc %d is not known", more))
		}
	default:
		panic(fmt.Sprintf("opcode %#x is not known", op))
	}
	for range numbers {
		r.number()
	}
}
