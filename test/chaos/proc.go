//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A role is the kind of a process.
type role int

const (
	routers role = iota
	guards
	servers
	kids // what servers have started, and what must end with them
)

// A process is a process of the run.
type process struct {
	pid    int
	role   role
	server string // its name
}

// processes returns the processes whose executables are in the run's folder.
func processes(bin string) []process {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	var found []process
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err != nil || filepath.Dir(exe) != bin {
			continue // it has ended, or belongs to another user
		}
		dir := filepath.Dir(link)
		pid, err := strconv.Atoi(filepath.Base(dir))
		line, gone := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || gone != nil {
			continue
		}
		args := strings.Split(string(line), "\x00")
		p := process{pid: pid, role: routers}
		switch {
		case filepath.Base(exe) == serverName:
			p.role = servers
			if i := slices.Index(args, "-name"); i >= 0 && i+1 < len(args) {
				p.server = args[i+1]
			}
			if slices.Contains(args, "-only-sleep") {
				p.role = kids
			}
		case len(args) > 1 && args[1] == "guard":
			p.role = guards
		}
		found = append(found, p)
	}
	return found
}

// of returns the processes of a role.
func of(r role, all []process) []process {
	return slices.DeleteFunc(slices.Clone(all), func(p process) bool { return p.role != r })
}

// orphans returns the processes whose server has ended.
func orphans(all []process) []process {
	return slices.DeleteFunc(of(kids, all), func(child process) bool {
		return slices.ContainsFunc(all, func(p process) bool { return child.server == childOf+strconv.Itoa(p.pid) })
	})
}

// A usage is the resources that processes hold.
type usage struct {
	files   int
	memory  int64 // resident bytes
	threads int
}

// usageOf returns the resources of a process, zero if it has ended.
func usageOf(pid int) (u usage) {
	u.files = len(openFiles(pid))
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if fields := bytes.Fields(statm); err == nil && len(fields) > 1 {
		pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
		u.memory = pages * int64(os.Getpagesize())
	}
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	u.threads = len(tasks)
	return u
}

// openFiles describes the open files of a process.
func openFiles(pid int) (files []string) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	names, _ := os.ReadDir(dir)
	for _, name := range names {
		if target, err := os.Readlink(filepath.Join(dir, name.Name())); err == nil {
			files = append(files, target)
		}
	}
	return files
}

// kinds counts the open files by kind, such as pipes.
func kinds(files []string) string {
	counts := map[string]int{}
	for _, file := range files {
		kind, _, _ := strings.Cut(file, ":[")
		counts[kind]++
	}
	return fmt.Sprint(counts)
}

// zombies returns the children of the run's routers that have ended but were not waited for.
func zombies(all []process) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var state string
		var parent int
		fmt.Sscan(string(b[bytes.LastIndexByte(b, ')')+1:]), &state, &parent)
		if state == "Z" && slices.ContainsFunc(all, func(p process) bool { return p.role == routers && p.pid == parent }) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}
