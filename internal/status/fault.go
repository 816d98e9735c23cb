package status

import (
	"cmp"
	"time"
)

// A FaultKind says why a server is not ready.
type FaultKind string

const (
	CommandMissing     FaultKind = "command_missing"     // Command does not exist; Path, if it was searched there
	CommandUnusable    FaultKind = "command_unusable"    // Command exists and can't be run
	InterpreterMissing FaultKind = "interpreter_missing" // Command is a script, and its interpreter does not exist
	FolderMissing      FaultKind = "folder_missing"      // the working directory Folder is no folder
	FetchFailed        FaultKind = "fetch_failed"        // Command could not fetch the packages Fetches; Said
	Exited             FaultKind = "exited"              // its process ended: Code or Signal, After, Spoke, Said
	TimedOut           FaultKind = "timed_out"           // not ready within After; Doing
	Refused            FaultKind = "refused"             // it answered with a JSON-RPC error: Code, Message
	PrintsText         FaultKind = "prints_text"         // it writes text instead of messages; Message is its first line; its start goes on
	WrongProtocol      FaultKind = "wrong_protocol"      // it speaks an unknown Protocol
	Unauthorized       FaultKind = "unauthorized"        // it asks for a token; HadToken, or Login and Issuer, or Message, why no token could be had
	BadStatus          FaultKind = "bad_status"          // it answers with the HTTP status Code
	Unreachable        FaultKind = "unreachable"         // no connection, because of Net
	Redirected         FaultKind = "redirected"          // it has another url; Message
	NoSecret           FaultKind = "no_secret"           // a secret that its entry refers to can't be got; Message; Command says how to set it, if that is the reason
	OtherFault         FaultKind = "other"               // any other; Message is all that is known
)

// Why a connection failed.
const (
	NoSuchHost        = "no_such_host"
	ConnectionRefused = "connection_refused"
	BadCertificate    = "bad_certificate"
	NotTLS            = "not_tls" // the url says https, the server speaks plain HTTP
	NoAnswer          = "no_answer"
)

// A Fault is why a server is not ready, or was not before. Its kind, and not the text of
// an error, tells faults apart; the comment of the kind names the fields that are
// set.
type Fault struct {
	Kind     FaultKind
	Command  string // as configured, or as it is run
	Path     string // the PATH in which it was searched for
	Folder   string
	Fetches  []string // packages
	Code     int
	Signal   string // by which the process ended; "" if it exited
	After    time.Duration
	Spoke    bool // a message had come from it
	HadToken bool
	Login    LoginReason // why a person must log in; "" if the server wants a token in a header
	Issuer   string      // who would issue the token; "" if unknown
	Protocol string
	Net      string // NoSuchHost and so on; "" for other reasons
	Message  string
	Listing  bool     // the session was open, and its tools were being listed
	Doing    string   // why its start waited, if not for the server
	Said     []string // the last lines on stderr of the process that failed
}

// A LoginReason says why a person must log in to a server.
type LoginReason string

const (
	NeverLoggedIn      LoginReason = "never_logged_in"
	LoginExpired       LoginReason = "expired"             // the tokens have expired or were revoked
	ScopeMissing       LoginReason = "scope_missing"       // the login does not permit the call
	IssuerUnreachable  LoginReason = "issuer_unreachable"  // the token could not be refreshed; tried again with the next call
	RefreshInterrupted LoginReason = "refresh_interrupted" // a router ended between a refresh and its end, and the issuer does not repeat its answer
	TokenRejected      LoginReason = "token_rejected"      // the server refuses a token that was just issued
)

// loginTexts are the reasons as ends of a sentence about the server.
var loginTexts = map[LoginReason]string{
	NeverLoggedIn:      "nobody has logged in to it yet",
	LoginExpired:       "its login has expired or was revoked",
	ScopeMissing:       "its login does not permit this call",
	IssuerUnreachable:  "its token has expired, and its issuer can't be reached",
	RefreshInterrupted: "the refresh of its token was interrupted",
	TokenRejected:      "it refuses a token that was just issued",
}

// Text returns the reason as the end of a sentence about the server.
func (r LoginReason) Text() string { return cmp.Or(loginTexts[r], string(r)) }
