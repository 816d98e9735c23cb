package natsserver

// Stats are what a server has counted since it was started.
type Stats struct {
	InMessages  int64 `json:"in_msgs"` // from clients and other servers
	OutMessages int64 `json:"out_msgs"`
	InBytes     int64 `json:"in_bytes"`
	OutBytes    int64 `json:"out_bytes"`
	Memory      int64 `json:"mem"`
}

// Stats returns what the server has counted.
func (s *Server) Stats() (stats Stats) {
	s.t.Helper()
	if err := s.monitored("/varz", &stats); err != nil {
		s.t.Fatal(err)
	}
	return stats
}
