package supervisor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/mcp-metarouter/metarouter/session"
)

// A FaultKind says what kind of thing keeps a server from being ready.
type FaultKind string

const (
	CommandMissing     FaultKind = "command_missing"     // Command is not there; Path, if it was searched there
	CommandUnusable    FaultKind = "command_unusable"    // Command is there and can't be run
	InterpreterMissing FaultKind = "interpreter_missing" // Command is a script, and what its first line names is not there
	FolderMissing      FaultKind = "folder_missing"      // the working directory Folder is no folder
	FetchFailed        FaultKind = "fetch_failed"        // what Fetches names could not be fetched by Command; Said
	Exited             FaultKind = "exited"              // its process ended: Code or Signal, After, Spoke, Said
	TimedOut           FaultKind = "timed_out"           // not ready After so long; Doing
	Refused            FaultKind = "refused"             // it answered with a JSON-RPC error: Code, Message
	WrongProtocol      FaultKind = "wrong_protocol"      // it speaks the Protocol, which is none that we know
	Unauthorized       FaultKind = "unauthorized"        // it wants a token; HadToken
	BadStatus          FaultKind = "bad_status"          // it answers with the HTTP status Code
	Unreachable        FaultKind = "unreachable"         // no connection, because of Net
	Redirected         FaultKind = "redirected"          // it is elsewhere, by what Message says
	OtherFault         FaultKind = "other"               // whatever else; Message says all there is
)

// Why a connection failed.
const (
	NoSuchHost        = "no_such_host"
	ConnectionRefused = "connection_refused"
	BadCertificate    = "bad_certificate"
	NotTLS            = "not_tls" // https was asked for where plain HTTP is spoken
	NoAnswer          = "no_answer"
)

// A Fault is what keeps a server from being ready, or kept it before: told apart by
// its kind, so that nobody has to look for words in an error. Which of the fields are
// set goes by the kind.
type Fault struct {
	Kind     FaultKind
	Command  string // as configured, or as it is run
	Path     string // the PATH in which it was searched for
	Folder   string
	Fetches  []string // packages
	Code     int
	Signal   string // by which the process ended; "" if it exited
	After    time.Duration
	Spoke    bool // any message had come from it
	HadToken bool
	Protocol string
	Net      string // NoSuchHost and so on; "" if it is none of these
	Message  string
	Listing  bool     // the session was open, and its tools were being listed
	Doing    string   // what its start was waiting for beside the server
	Said     []string // the last lines on stderr of the process that failed
}

// faultOf returns the fault that an error amounts to. It knows those that a start can
// end with.
func faultOf(err error) *Fault {
	f := &Fault{Kind: OtherFault, Message: err.Error()}
	if _, ok := errors.AsType[*listError](err); ok {
		f.Listing = true
	}
	if e, ok := errors.AsType[*missingError](err); ok {
		f.Kind, f.Command, f.Path = CommandMissing, e.command, e.path
		if !errors.Is(err, fs.ErrNotExist) && e.err != nil {
			f.Kind, f.Message = CommandUnusable, e.err.Error()
		}
	} else if e, ok := errors.AsType[*folderError](err); ok {
		f.Kind, f.Folder = FolderMissing, e.folder
	} else if e, ok := errors.AsType[*spawnError](err); ok {
		f.Kind, f.Command = CommandUnusable, e.path
		if errors.Is(err, fs.ErrNotExist) { // an interpreter, since it was found itself
			f.Kind = InterpreterMissing
		} else if e, ok := errors.AsType[*fs.PathError](err); ok {
			f.Message = e.Err.Error()
		}
	} else if e, ok := errors.AsType[*fetchError](err); ok {
		f.Kind, f.Command, f.Fetches, f.Said = FetchFailed, e.by, e.packages, e.said
		if late, ok := errors.AsType[*lateError](err); ok {
			f.Kind, f.After, f.Doing = TimedOut, late.limit, e.fetch.String()
		}
	} else if e, ok := errors.AsType[*exitError](err); ok {
		f.Kind, f.Code, f.Signal, f.After, f.Spoke, f.Said = Exited, e.code, e.signal, e.after, e.spoke, e.said
	} else if e, ok := errors.AsType[*needsAuthError](err); ok {
		f.Kind, f.Code, f.HadToken = Unauthorized, e.status, e.had
	} else if e, ok := errors.AsType[*redirectError](err); ok {
		f.Kind, f.Message = Redirected, e.why
	} else if e, ok := errors.AsType[*statusError](err); ok {
		f.Kind, f.Code, f.Message = BadStatus, e.status, e.text
	} else if e, ok := errors.AsType[*versionError](err); ok {
		f.Kind, f.Protocol = WrongProtocol, e.version
	} else if e, ok := errors.AsType[*lateError](err); ok {
		f.Kind, f.After = TimedOut, e.limit
	} else if e, ok := errors.AsType[*session.Error](err); ok {
		f.Kind, f.Code, f.Message = Refused, int(e.Code), e.Message
	} else if why, ok := netFault(err); ok {
		f.Kind, f.Net = Unreachable, why
	}
	return f
}

// netFault reports whether err says that there was no connection, and why if that is
// one of the usual reasons.
func netFault(err error) (why string, ok bool) {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return NoSuchHost, true
	}
	_, unproven := errors.AsType[*tls.CertificateVerificationError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	failed, timed := errors.AsType[net.Error](err)
	const refusedOnWindows = syscall.Errno(10061)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, refusedOnWindows):
		return ConnectionRefused, true
	case unproven, invalid:
		return BadCertificate, true
	case plain, errors.Is(err, http.ErrSchemeMismatch):
		return NotTLS, true
	case timed && failed.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return NoAnswer, true
	}
	_, ok = errors.AsType[*net.OpError](err)
	return "", ok
}

// A missingError is a command that can't be found: on path, if it was searched there.
type missingError struct {
	command, path string
	err           error // what is the matter with the file that it names; nil if it was searched for
}

func (e *missingError) Error() string {
	if e.err != nil {
		return fmt.Sprintf("command %s: %v", e.command, e.err)
	}
	return fmt.Sprintf("command %q is not on PATH (%s), nor where the login shell or version managers keep programs; install it, or write its full path", e.command, e.path)
}

func (e *missingError) Unwrap() error { return e.err }

// A folderError is a working directory that is none.
type folderError struct{ folder string }

func (e *folderError) Error() string {
	return fmt.Sprintf("its working directory %s is no folder", e.folder)
}

// A spawnError is a program that the system can't start.
type spawnError struct {
	path string
	err  error
}

func (e *spawnError) Error() string { return fmt.Sprintf("start %s: %v", e.path, e.err) }
func (e *spawnError) Unwrap() error { return e.err }

// A fetchError is a package that could not be fetched.
type fetchError struct {
	fetch
	said []string // by whom fetches
	err  error
}

func (e *fetchError) Error() string { return e.err.Error() }
func (e *fetchError) Unwrap() error { return e.err }

// A lateError is the end of the time that an entry gives its server to start.
type lateError struct{ limit time.Duration }

func (e *lateError) Error() string {
	return fmt.Sprintf("not ready within %s (startTimeout)", e.limit)
}

// A listError is a list of tools that could not be had of an open session.
type listError struct{ err error }

func (e *listError) Error() string { return fmt.Sprintf("list its tools: %v", e.err) }
func (e *listError) Unwrap() error { return e.err }

// A versionError is a protocol that is none that we know.
type versionError struct{ version string }

func (e *versionError) Error() string {
	return fmt.Sprintf("initialize: the server speaks protocol %q, which is not one of %s to %s", e.version, session.Oldest, session.LatestLegacy)
}
