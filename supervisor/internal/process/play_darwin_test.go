package process

func hideFromLimits() {}
