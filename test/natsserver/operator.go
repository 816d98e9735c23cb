package natsserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
)

// An Operator issues credentials files, as those who run NATS for many do.
type Operator struct {
	t                         testing.TB
	operator, account, system nkeys.KeyPair
}

// NewOperator returns an operator with one account, which has JetStream.
func NewOperator(t testing.TB) *Operator {
	t.Helper()
	create := func(key nkeys.KeyPair, err error) nkeys.KeyPair {
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	return &Operator{t, create(nkeys.CreateOperator()), create(nkeys.CreateAccount()), create(nkeys.CreateAccount())}
}

// Extra is the part of a server's [Options] that accepts the credentials.
func (o *Operator) Extra() string {
	o.t.Helper()
	unlimited := map[string]any{
		"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
		"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
	}
	operator := o.token(o.operator, o.operator, map[string]any{"type": "operator", "version": 2})
	account := o.token(o.operator, o.account, map[string]any{"type": "account", "version": 2, "limits": unlimited})
	system := o.token(o.operator, o.system, map[string]any{"type": "account", "version": 2})
	return fmt.Sprintf("operator: %s\nresolver: MEMORY\nsystem_account: %s\nresolver_preload: { %[2]s: %q, %s: %q }\n",
		operator, o.public(o.system), system, o.public(o.account), account)
}

// Creds returns a new credentials file, valid until expiry; the zero time is for ever.
func (o *Operator) Creds(expiry time.Time) string {
	o.t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		o.t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		o.t.Fatal(err)
	}
	claims := map[string]any{"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1}
	if !expiry.IsZero() {
		claims["exp"] = expiry.Unix()
	}
	file := filepath.Join(o.t.TempDir(), "user.creds")
	write(o.t, file, fmt.Appendf(nil, "-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n",
		o.token(o.account, user, claims), seed))
	return file
}

// token returns a JSON web token about a key that another has signed. exp in the claims is moved to
// where it belongs.
func (o *Operator) token(issuer, subject nkeys.KeyPair, claims map[string]any) string {
	o.t.Helper()
	payload := map[string]any{"iss": o.public(issuer), "sub": o.public(subject), "name": "test", "iat": time.Now().Unix(), "jti": "x", "nats": claims}
	if expiry, ok := claims["exp"]; ok {
		payload["exp"] = expiry
		delete(claims, "exp")
	}
	text, err := json.Marshal(payload)
	if err != nil {
		o.t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"typ":"JWT","alg":"ed25519-nkey"}`)) + "." + encode(text)
	signature, err := issuer.Sign([]byte(signed))
	if err != nil {
		o.t.Fatal(err)
	}
	return signed + "." + encode(signature)
}

func (o *Operator) public(key nkeys.KeyPair) string {
	o.t.Helper()
	text, err := key.PublicKey()
	if err != nil {
		o.t.Fatal(err)
	}
	return text
}
