package config

// restartKeys are the keys of "metarouter" that take effect at the router's next start.
// All other keys take effect when the file is saved. The descriptions in schema.json name the
// same keys.
var restartKeys = []struct {
	key   string
	value func(Router) any
}{
	{"http.addr", func(r Router) any { return r.HTTP.Addr }},
	{"http.tlsCert", func(r Router) any { return r.HTTP.TLSCert }},
	{"http.tlsKey", func(r Router) any { return r.HTTP.TLSKey }},
	{"http.clientCA", func(r Router) any { return r.HTTP.ClientCA }},
	{"http.maxHeader", func(r Router) any { return r.HTTP.MaxHeader }},
}

// RestartKeys returns the keys of "metarouter" in which a and b differ and that take effect
// at the router's next start, such as "http.addr".
func RestartKeys(a, b Router) (keys []string) {
	for _, k := range restartKeys {
		if k.value(a) != k.value(b) {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// RestartKeys returns the keys that the files set and that take effect at the router's
// next start only.
func (c Config) RestartKeys() []string { return RestartKeys(defaultRouter(), c.Router) }
