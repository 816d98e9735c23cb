package keeper

// KillMarked does nothing: the kernel kills servers with their job objects.
func KillMarked(string) {}
