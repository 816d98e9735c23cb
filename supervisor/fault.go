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
	"strings"
	"syscall"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/vault"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/launch"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/resolve"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/transport"
)

// reasonOf returns the text of the error that ended a server, or kept it from starting. That
// a message was not sent matters to calls only.
func reasonOf(err error) string {
	return strings.TrimPrefix(err.Error(), session.ErrNotSent.Error()+": ")
}

// faultOf returns the fault that an error describes. It knows the errors of starts.
func faultOf(err error) *status.Fault {
	f := &status.Fault{Kind: status.OtherFault, Message: reasonOf(err)}
	if e, ok := errors.AsType[*listError](err); ok {
		f.Listing = true
		if bad, ok := errors.AsType[*peer.AnswerError](err); ok {
			f.Message = bad.Error()
		} else if cause := errors.Unwrap(e.err); cause != nil { // without the action, which Listing says
			f.Message = cause.Error()
		}
	}
	if e, ok := errors.AsType[*resolve.Error](err); ok { // first, since its command may be missing
		f.Kind, f.Message = status.NoSecret, e.Error()
		if missing, ok := errors.AsType[*vault.MissingError](err); ok {
			f.Message, f.Command = fmt.Sprintf("the secret %s is not set", missing.Name), "run: "+vault.SetCommand(missing.Name)
		}
	} else if e, ok := errors.AsType[*process.MissingError](err); ok {
		f.Kind, f.Command, f.Path = status.CommandMissing, e.Command, e.Path
		if !errors.Is(err, fs.ErrNotExist) && e.Err != nil {
			f.Kind, f.Message = status.CommandUnusable, e.Err.Error()
		}
	} else if e, ok := errors.AsType[*launch.FolderError](err); ok {
		f.Kind, f.Folder = status.FolderMissing, e.Folder
	} else if e, ok := errors.AsType[*process.StartError](err); ok {
		f.Kind, f.Command = status.CommandUnusable, e.Path
		if errors.Is(err, fs.ErrNotExist) { // its interpreter, since the program itself was found
			f.Kind = status.InterpreterMissing
		} else if e, ok := errors.AsType[*fs.PathError](err); ok {
			f.Message = e.Err.Error()
		}
	} else if e, ok := errors.AsType[*launch.FetchError](err); ok {
		f.Kind, f.Command, f.Fetches, f.Said = status.FetchFailed, e.By, e.Packages, e.Said
		if late, ok := errors.AsType[*timeoutError](err); ok {
			f.Kind, f.After, f.Doing = status.TimedOut, late.limit, e.Doing
		}
	} else if e, ok := errors.AsType[*exitError](err); ok {
		f.Kind, f.Code, f.Signal, f.After, f.Spoke, f.Said = status.Exited, e.code, e.signal, e.after, e.spoke, e.lastLines
	} else if e, ok := errors.AsType[*transport.NeedsAuthError](err); ok {
		f.Kind, f.Code, f.HadToken = status.Unauthorized, e.Status, e.HadToken
		if needed, ok := errors.AsType[*login.NeededError](err); ok {
			f.Login, f.Issuer, f.Message = needed.Why, needed.Issuer, needed.Error()
		} else if f.Message = ""; e.NoLogin != nil && !errors.Is(e.NoLogin, login.ErrNoOAuth) {
			f.Message = e.NoLogin.Error()
		}
	} else if e, ok := errors.AsType[*transport.RedirectError](err); ok {
		f.Kind, f.Message = status.Redirected, e.Reason
	} else if e, ok := errors.AsType[*transport.StatusError](err); ok {
		f.Kind, f.Code, f.Message = status.BadStatus, e.Status, e.Text
	} else if e, ok := errors.AsType[*peer.VersionError](err); ok {
		f.Kind, f.Protocol = status.WrongProtocol, e.Version
	} else if e, ok := errors.AsType[*timeoutError](err); ok {
		f.Kind, f.After = status.TimedOut, e.limit
	} else if e, ok := errors.AsType[*session.Error](err); ok {
		f.Kind, f.Code, f.Message = status.Refused, int(e.Code), e.Message
	} else if why, ok := netFault(err); ok {
		f.Kind, f.Net = status.Unreachable, why
	}
	return f
}

// netFault reports whether err says that no connection was made, and why if that is one
// of the usual reasons.
func netFault(err error) (why string, ok bool) {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return status.NoSuchHost, true
	}
	_, unproven := errors.AsType[*tls.CertificateVerificationError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	failed, timed := errors.AsType[net.Error](err)
	const refusedOnWindows = syscall.Errno(10061)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, refusedOnWindows):
		return status.ConnectionRefused, true
	case unproven, invalid:
		return status.BadCertificate, true
	case plain, errors.Is(err, http.ErrSchemeMismatch):
		return status.NotTLS, true
	case timed && failed.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return status.NoAnswer, true
	}
	_, ok = errors.AsType[*net.OpError](err)
	return "", ok
}

// An exitError says how a process ended, with its last output.
type exitError struct {
	what      string
	code      int
	signal    string // "" if it exited
	after     time.Duration
	spoke     bool     // it had sent a message
	lastLines []string // its last stderr lines
}

func (e *exitError) Error() string { return e.what }

// A timeoutError is the end of the time that an entry gives its server to start.
type timeoutError struct{ limit time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("not ready within %s (startTimeout)", e.limit)
}

// A listError is a failure to list the tools of an open session.
type listError struct{ err error }

func (e *listError) Error() string { return fmt.Sprintf("list its tools: %v", e.err) }
func (e *listError) Unwrap() error { return e.err }
