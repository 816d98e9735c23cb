package natsserver

// Stats are the counts of a server since its start.
type Stats struct {
	InMessages  int64 `json:"in_msgs"` // from clients and other servers
	OutMessages int64 `json:"out_msgs"`
	InBytes     int64 `json:"in_bytes"`
	OutBytes    int64 `json:"out_bytes"`
	Memory      int64 `json:"mem"`
}

// Stats returns the counts of the server.
func (s *Server) Stats() (stats Stats) {
	s.t.Helper()
	if err := s.monitored("/varz", &stats); err != nil {
		s.t.Fatal(err)
	}
	return stats
}
