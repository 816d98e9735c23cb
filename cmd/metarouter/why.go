package main

import "github.com/spf13/cobra"

func (a *app) why() *cobra.Command  { return leaf("why TOOL", "", "", nil, nil) }
func (a *app) plan() *cobra.Command { return leaf("plan FILE", "", "", nil, nil) }
