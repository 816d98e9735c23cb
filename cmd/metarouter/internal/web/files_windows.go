package web

import "math"

// maxFiles returns how many files this process may have open: the system sets no limit.
func maxFiles() int { return math.MaxInt32 }
