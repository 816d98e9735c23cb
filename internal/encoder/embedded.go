package encoder

import (
	_ "embed"
	"sync"
)

//go:embed model.bin
var embedded string // of which only the pages are in memory that are looked at

// Version is the name of the model in the program. Models with other vectors have other names.
const Version = "metarouter-3"

// Embedded returns the model in the program.
var Embedded = sync.OnceValue(func() *Model {
	m, err := Decode(embedded)
	if err != nil {
		panic(err) // a test decodes it
	}
	return m
})
