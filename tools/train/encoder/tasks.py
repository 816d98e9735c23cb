"""Batches to learn from: tasks, tools, and which tools do which tasks.

tasks.jsonl.gz was written for this project: what people say to an assistant, over the tools of 690 MCP servers. Each line has
the tasks, each with and without its values, and the tools that do them, as hash(server, name). Lines with a catalog are tasks
over several servers together, with all tools that do them; the others are for one tool, which alone of its server does them.

A batch is (tasks, tools, right, there, weights, pairs): numbers of texts; which tools do a task, and which are asked about;
the weight of each task; and 1 if each tool has the task with its number, else 0.
"""

import gzip
import hashlib
import json
import os
import re

import numpy as np

import pairs

WITHOUT_VALUES = 0.5  # how often a task is taken without its values
WITHOUT_SERVER, WITH_PARAMS = 0.3, 0.25  # how often a tool is taken so
OF_A_SERVER = 24  # tools of a server in a batch, at most
OF_A_CATALOG = 64  # tasks
EPOCHS = 6  # of rows, before they repeat


def hash_of(server, name):
    return hashlib.sha256(f"{server}\n{name}".encode()).hexdigest()[:12]


class Numbers(dict):
    """Numbers texts in the order in which they come."""

    def __missing__(self, text):
        self[text] = len(self)
        return self[text]


class Batches:
    """Draws batches. The pool is a file with lines of {"server", "name", "description", "input_schema"}."""

    def __init__(self, pool, rows, everyday, chance):
        self.chance, self.tasks, self.tools = chance, Numbers(), Numbers()
        known = {}
        for line in open(pool):
            t = json.loads(line)
            description = "" if "Try in Playground" in t["description"] else t["description"]
            server = pairs.split_name(re.sub(r"^@[^_]*_", "", t["server"])) if t["server"] != t["name"] else ""
            name = pairs.split_name(t["name"])
            params = [pairs.split_name(p) for p in (t.get("input_schema") or {}).get("properties", {})][:8]
            listed = f" ({', '.join(params)})" if params else ""
            texts = [pairs.tool_text(s, name, pairs.first_sentences(description)) for s in (server, "")]
            known[hash_of(t["server"], t["name"])] = t["server"], [self.tools[x + end] for end in ("", listed) for x in texts]
        self.servers, catalogs = {}, {}
        with gzip.open(os.path.join(os.path.dirname(__file__), "tasks.jsonl.gz"), "rt") as file:
            for row in map(json.loads, file):
                said = [(self.tasks[task[0]], self.tasks[task[-1]]) for task in row["tasks"]]
                if "catalog" in row:
                    catalogs.setdefault(row["catalog"], []).append((said[0], row["tools"]))
                else:
                    server, texts = known[row["tools"][0]]
                    self.servers.setdefault(server, []).append((texts, said))
        self.catalogs = []
        for lines in catalogs.values():
            needed = {known[h][0] for _, right in lines for h in right}
            at = {h: i for i, h in enumerate(h for h, (server, _) in known.items() if server in needed)}
            self.catalogs.append(([known[h][1] for h in at], [(said, [at[h] for h in right]) for said, right in lines]))
        self.epochs, of = [], Numbers()
        for _ in range(EPOCHS):
            drawn = pairs.epoch(rows, everyday, chance)
            self.epochs.append(np.array([(self.tasks[task], self.tools[tool], weight, of[key]) for task, tool, weight, key, _ in drawn]))
        self.at = 0

    def said(self, task):
        return task[self.chance.random() < WITHOUT_VALUES]

    def listed(self, texts):
        return texts[(self.chance.random() < WITHOUT_SERVER) + 2 * (self.chance.random() < WITH_PARAMS)]

    def of_servers(self, size):
        """Returns tools of some servers, with a task each."""
        drawn = []
        for server in self.chance.sample(list(self.servers), len(self.servers)):
            some = self.servers[server]
            for texts, tasks in self.chance.sample(some, min(len(some), OF_A_SERVER)):
                drawn.append((self.said(self.chance.choice(tasks)), self.listed(texts)))
            if len(drawn) >= size:
                break
        some_tasks, some_tools = np.array(drawn[:size]).T
        return some_tasks, some_tools, np.eye(size, dtype=bool), np.ones((size, size), bool), np.ones(size, np.float32), np.float32(1)

    def of_catalogs(self, size):
        """Returns tasks of the catalogs for which there is room, each asked of the tools of its catalog."""
        some_tasks, some_tools = np.zeros(size, int), np.zeros(size, int)
        right, there, weights = np.zeros((size, size), bool), np.zeros((size, size), bool), np.zeros(size, np.float32)
        row = column = 0
        for tools, tasks in self.chance.sample(self.catalogs, len(self.catalogs)):
            if column + len(tools) > size:
                continue
            for task, does in self.chance.sample(tasks, min(len(tasks), OF_A_CATALOG))[: size - row]:
                some_tasks[row], weights[row] = self.said(task), 1
                there[row, column : column + len(tools)] = True
                right[row, [column + i for i in does]] = True
                row += 1
            some_tools[column : column + len(tools)] = [self.listed(texts) for texts in tools]
            column += len(tools)
        there[row:, 0] = right[row:, 0] = True
        return some_tasks, some_tools, right, there, weights, np.float32(0)

    def of_rows(self, size):
        """Returns the next pairs of package pairs."""
        epoch = self.epochs[0]
        if self.at + size > len(epoch):
            self.epochs = self.epochs[1:] + [epoch]
            epoch, self.at = self.epochs[0], self.chance.randrange(size)
        some = epoch[self.at : self.at + size]
        self.at += size
        right = np.eye(size, dtype=bool)
        there = (some[:, None, 3] != some[None, :, 3]) | right
        return some[:, 0].astype(int), some[:, 1].astype(int), right, there, some[:, 2].astype(np.float32), np.float32(1)
