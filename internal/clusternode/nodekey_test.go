package clusternode

import (
	"strings"
	"testing"
)

const (
	keyA = "UA6NDBPC7STOTBZ36WTDDTWYMWVJIMUNJTVB2WQP7PGBKLWW3H4DRX3X"
	keyB = "UBWYQBM6PNVQ4XOVEFFAIIJVCVQD2B4PASQRUIFD72QMTWIUR65CGOZW"
)

func TestCheck(t *testing.T) {
	wrong := strings.Replace(keyA, "6", "7", 1)
	for key, says := range map[string]string{
		keyA: "", keyB: "",
		"":                 "has 0 characters, and the public key of a node has 56",
		wrong:              "has a wrong checksum, so a character of it is wrong",
		keyA[:55]:          "has 55 characters",
		keyA + "\n":        "has 57 characters",
		keyA[:54] + "\r\n": "has a wrong checksum",
		"AC7KDYS6MJY722ENOFOATRMTUIVBL22O2AJMYJ6JWJDHGTFI5SKTO3KE":   "is not the public key of a node",
		"SUAONX5VP4WIMWSL4YIPMOK3ASZO7WMLD3N6WHR65ZJFQF4GE52PZBHZJM": "seems to be the seed of a private key",
	} {
		err := CheckKey(key)
		if (err == nil) != (says == "") || err != nil && (!strings.HasPrefix(err.Error(), says) || len(key) > 20 && strings.Contains(err.Error(), key)) {
			t.Errorf("%q: %v, want %q", key, err, says)
		}
	}
}
