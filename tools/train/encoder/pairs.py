"""Pairs of a task and a tool to learn from, drawn from rows.

The files are gzipped lines of JSON, either {"source", "query", "positive": {"server", "name", "description", "params", "title"}}, a task
and its tool, or {"source", "server", "name", "description", …}, a tool without a task. Of these, the title, the name or a part of the
description becomes the task. An epoch draws tool by tool, so that few tools with many tasks do not drown the rest.
"""

import glob
import gzip
import json
import os
import random
import re

# Of a file, or of a source in it: the weight of a pair, and how many pairs an epoch takes, in all and of one tool.
SOURCES = {
    "tasks-dialogue": (1, 2000, 40),
    "tasks-intents": (1, 8000, 25),
    "tasks-commands": (1, 15000, 4),
    "tasks-apis/toolalpaca": (1, 5000, 4),
    "tasks-apis/tooltalk": (1, 5000, 4),
    "tasks-apis/apibench": (0.7, 3000, 2),
    "tasks-apis/mcpm": (1, 5000, 4),
    "tasks-apis": (0.4, 3000, 1),
    "names-apis": (0.5, 7500, 1),
    "names-mcp": (0.7, 4000, 1),
    "names-commands": (0.5, 1800, 1),
    "names-functions": (0.4, 1200, 1),
    "names-npm": (0.3, 4500, 1),
    "names-pypi": (0.3, 4500, 1),
    "names-debian": (0.3, 1500, 1),
}
WITHOUT_LICENCE = ("openapi:Asana", "openapi:plaid")
OF_MCP = ("mcpm",)  # and the file names-mcp
EVERYDAY_REPEATS = 2
SIBLINGS = 6  # pairs of one server that stand together, so that they are hard to tell apart


def split_name(name):
    """Returns the words of a name: "sendMail" and "send_mail" are "send Mail" and "send mail"."""
    name = re.sub(r"[_\-./:]+", " ", name)
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return " ".join(re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", name).split())


def first_sentences(text, most=130):
    """Returns the first sentences, at least one, of at most this many characters."""
    out = ""
    for sentence in re.split(r"(?<=[.!?])\s+", " ".join((text or "").split())):
        if out and len(out) + len(sentence) > most:
            break
        out = (out + " " + sentence).strip()
    return out[:most]


def tool_text(server, name, description):
    """Returns a tool as the encoder reads it: "server name. description"."""
    head = f"{server} {name}".strip()
    return ". ".join(part for part in (head, description) if part)


def read_rows(folder, mcp):
    """Returns the tools of each source, each with its tasks. Without mcp, those of MCP registries are left out."""
    rows = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl.gz"))):
        file = os.path.basename(path).removesuffix(".jsonl.gz")
        known = {}
        for line in gzip.open(path, "rt"):
            row = json.loads(line)
            source = row["source"]
            if source in WITHOUT_LICENCE or not mcp and (file == "names-mcp" or source in OF_MCP):
                continue
            tool = row.get("positive") or row
            server, name = tool.get("server", ""), tool["name"]
            key = (source, server, name, tool.get("description", ""))
            if key not in known:
                known[key] = {
                    "server": split_name(server) if server != name else "",
                    "name": split_name(name),
                    "description": first_sentences(tool.get("description", "")),
                    "params": [split_name(p) for p in tool.get("params") or []][:8],
                    "title": tool.get("title") or "",
                    "group": (source, server) if server else None,
                    "tasks": [],
                }
                of = f"{file}/{source}" if f"{file}/{source}" in SOURCES else file
                rows.setdefault(of, []).append(known[key])
            if row.get("query"):
                known[key]["tasks"].append(row["query"])
    return rows


def read_everyday(path):
    """Returns the tools of a file with "server | name | description | phrase; phrase" in each line."""
    tools = []
    for line in open(path):
        if line.startswith("#") or not line.strip():
            continue
        server, name, description, phrases = line.rstrip("\n").split(" | ")
        tools.append({
            "server": server, "name": split_name(name), "description": description, "params": [], "title": "",
            "group": ("everyday", server), "tasks": [p.strip() for p in phrases.split(";")],
        })
    return tools


def some_text(tool, chance, name=True, description=True):
    """Returns the text of a tool, at times without its server, and with its parameters."""
    text = tool_text(
        tool["server"] if chance.random() < 0.7 else "",
        tool["name"] if name else "",
        tool["description"] if description else "",
    )
    if tool["params"] and chance.random() < 0.25:
        text += " (" + ", ".join(tool["params"]) + ")"
    return text


def described(tool, chance):
    """Returns a task made of the tool's title, name or description, and the tool without it; None if it has none."""
    way = chance.random()
    words = tool["description"].split()
    if tool["title"] and way < 0.3:
        return tool["title"], some_text(tool, chance)
    if way < 0.55 and len(words) >= 3:
        return tool["name"], some_text(tool, chance, name=False)
    if len(words) < 4:
        return None
    begin, end = 0, min(len(words), 20)
    if chance.random() < 0.5:
        begin = chance.randrange(max(1, len(words) - 4))
        end = min(len(words), begin + chance.randint(3, 12))
    return " ".join(words[begin:end]), some_text(tool, chance, description=chance.random() > 0.8)


def epoch(rows, everyday, chance):
    """Returns the pairs of an epoch: task, tool, weight, number of the tool. Siblings stand together."""
    pairs = []
    for source, tools in rows.items():
        weight, most, each = SOURCES[source]
        taken = 0
        for k in chance.sample(range(len(tools)), len(tools)):
            if taken >= most:
                break
            tool = tools[k]
            for task in chance.sample(tool["tasks"], min(each, len(tool["tasks"]))):
                pairs.append((task, some_text(tool, chance), weight, (source, k), tool["group"]))
                taken += 1
            if not tool["tasks"] and (pair := described(tool, chance)):
                pairs.append((*pair, weight, (source, k), tool["group"]))
                taken += 1
    for k, tool in enumerate(everyday):
        for task in tool["tasks"] * EVERYDAY_REPEATS:
            text = some_text(tool, chance, description=chance.random() < 0.7)
            pairs.append((task, text, 1, ("everyday", k), tool["group"]))
    chance.shuffle(pairs)
    runs, open_runs = [], {}
    for pair in pairs:
        run = open_runs.get(pair[4])
        if pair[4] is None or run is None or len(run) >= SIBLINGS:
            run = []
            runs.append(run)
            open_runs[pair[4]] = run
        run.append(pair)
    chance.shuffle(runs)
    return [pair for run in runs for pair in run]
