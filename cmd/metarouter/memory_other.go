//go:build !linux

package main

func unmapStart() {}
