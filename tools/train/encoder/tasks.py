"""Batches to learn from: tasks, tools, and which tools do which tasks.

tasks.jsonl.gz was written for this project: what people say to an assistant, over the tools of 690 MCP servers. Each line has
the tasks, each with and without its values, and the tools that do them, as hash(server, name). Lines with a catalog are tasks
over several servers together, with all tools that do them; the others are for one tool, which alone of its server does them.
"""

import gzip
import hashlib
import json
import os
import re

import numpy as np

import pairs

WITHOUT_VALUES = 0.7  # how often a task is taken without its values
OF_A_SERVER = 24  # tools of a server in a batch, at most
OF_A_CATALOG = 64  # tasks


def hash_of(server, name):
    return hashlib.sha256(f"{server}\n{name}".encode()).hexdigest()[:12]


class Tasks:
    """The tasks of tasks.jsonl.gz over the tools of a pool: lines of {"server", "name", "description", "input_schema"}."""

    def __init__(self, pool, chance):
        self.chance = chance
        tools = {}
        for line in open(pool):
            t = json.loads(line)
            description = "" if "Try in Playground" in t["description"] else t["description"]
            tools[hash_of(t["server"], t["name"])] = {
                "of": t["server"],
                "server": pairs.split_name(re.sub(r"^@[^_]*_", "", t["server"])) if t["server"] != t["name"] else "",
                "name": pairs.split_name(t["name"]),
                "description": pairs.first_sentences(description),
                "params": [pairs.split_name(p) for p in (t.get("input_schema") or {}).get("properties", {})][:8],
            }
        self.servers, self.catalogs = {}, {}
        with gzip.open(os.path.join(os.path.dirname(__file__), "tasks.jsonl.gz"), "rt") as file:
            for row in map(json.loads, file):
                if "catalog" in row:
                    self.catalogs.setdefault(row["catalog"], []).append((row["tasks"][0], row["tools"]))
                else:
                    tool = tools[row["tools"][0]]
                    self.servers.setdefault(tool["of"], []).append((tool, row["tasks"]))
        self.catalogs = [(self.of_servers(tools, tasks), tasks) for tasks in self.catalogs.values()]

    @staticmethod
    def of_servers(tools, tasks):
        """Returns the tools of the servers that do the tasks."""
        servers = {tools[h]["of"] for _, right in tasks for h in right}
        return {h: t for h, t in tools.items() if t["of"] in servers}

    def said(self, task):
        return task[-1] if self.chance.random() < WITHOUT_VALUES else task[0]

    def of_tools(self, size):
        """Returns a batch of tools, one task each, of some servers."""
        drawn, seen = [], set()
        while len(drawn) < size:
            server = self.chance.choice(list(self.servers))
            if server not in seen:
                seen.add(server)
                some = self.servers[server]
                drawn += self.chance.sample(some, min(len(some), OF_A_SERVER))
        drawn = drawn[:size]
        return (
            [self.said(self.chance.choice(tasks)) for _, tasks in drawn],
            [pairs.some_text(tool, self.chance) for tool, _ in drawn],
            np.eye(size, dtype=bool), np.ones((size, size), bool), np.ones(size, np.float32),
        )

    def of_catalog(self, size):
        """Returns a batch of tasks of a catalog with its tools, as many as there is room for."""
        tools, tasks = self.chance.choice(self.catalogs)
        some = self.chance.sample(tasks, min(len(tasks), OF_A_CATALOG))
        needed = list(dict.fromkeys(h for _, right in some for h in right))
        others = [h for h in tools if h not in needed]
        self.chance.shuffle(others)
        at = {h: i for i, h in enumerate((needed + others)[:size])}
        some = [(task, right) for task, right in some if any(h in at for h in right)]
        right, there, weights = np.zeros((size, size), bool), np.zeros((size, size), bool), np.zeros(size, np.float32)
        there[:, : len(at)] = True
        right[len(some):, 0] = True
        weights[: len(some)] = 1
        for i, (_, hashes) in enumerate(some):
            right[i, [at[h] for h in hashes if h in at]] = True
        texts = [self.said(task) for task, _ in some] + [""] * (size - len(some))
        return texts, [pairs.some_text(tools[h], self.chance) for h in at] + [""] * (size - len(at)), right, there, weights


class Rows:
    """Pairs of package pairs, an epoch after the other."""

    def __init__(self, rows, everyday, chance):
        self.rows, self.everyday, self.chance = rows, everyday, chance
        self.drawn, self.at = [], 0

    def batch(self, size):
        if self.at + size > len(self.drawn):
            self.drawn, self.at = pairs.epoch(self.rows, self.everyday, self.chance), 0
        some = self.drawn[self.at : self.at + size]
        self.at += size
        right = np.eye(size, dtype=bool)
        same = np.array([[a[3] == b[3] for b in some] for a in some])
        return [p[0] for p in some], [p[1] for p in some], right, ~same | right, np.array([p[2] for p in some], np.float32)
