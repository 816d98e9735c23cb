package web

import "github.com/mcp-metarouter/metarouter/server"

// withPage adds to s what the page needs to log people in at the issuer.
func (i issuer) withPage(s server.Issuer) server.Issuer {
	s.ClientID, s.ClientSecret, s.Audience = i.ClientID, i.ClientSecret, i.Audience
	for _, claim := range i.Admins {
		name := claim.Name
		if claim.Value != "" {
			name += "=" + claim.Value
		}
		s.Admins = append(s.Admins, name)
	}
	return s
}
