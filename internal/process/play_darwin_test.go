package process

func hideFromLimits() {}

func endFirstThread() {}
