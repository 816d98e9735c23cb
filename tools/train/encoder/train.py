"""Trains the sentence encoder of ../../../internal/encoder.

    python train.py train  -teacher DIR -train DIR -pool FILE -out student.npz [-from student.npz]
    python train.py export -teacher DIR -train DIR -from student.npz -out model.bin
    python train.py sample -teacher DIR -out ../../../internal/encoder/testdata

It starts from all-MiniLM-L6-v2 (Apache-2.0, sentence-transformers), with half of the inner numbers of its layers: the folder
-teacher has its model.safetensors and tokenizer.json. It learns to tell the tool of a task from others, above all from others
of the same server: from tasks.jsonl.gz and everyday.txt, which were written for this project, over the tools of -pool (lists
of tools of public MCP servers, see tasks.py), and from the rows of -train, "names-*" and "tasks-*" with {"source", "query",
"positive" or "name", "description"} (see pairs.py, and the README of that folder for sources and licences). The data that
../measure.go measures with are not learned: neither their tasks nor the servers that they need. The pool has the other tools
of the corpus "large". -mcp adds the rows of MCP registries, which list some of the same servers.

The model in the program was made by two runs: 900 steps, and from there 700 steps with -rate 7e-5 -seed 5 -shares 8,0.7,2.

It needs Python 3.11 with numpy, jax, tokenizers and safetensors. Seeds are fixed. Two cores take about a second for a step.
sample writes a small random model and its vectors, which the tests of the Go package compare with.
"""

import argparse
import json
import os
import random
import time

import jax
import jax.numpy as jnp
import numpy as np
from tokenizers import Tokenizer

import model
import pairs
import tasks

TASK_LENGTHS, TOOL_LENGTHS = (12, 16, 24), (24, 32)  # pieces, to which texts are filled up
OFTEN_READ = 60_000  # tools of a source whose pieces are counted
UNKNOWN = 100  # the number of [UNK]
COMMON = 12_000  # the first pieces of the teacher, which are the most frequent, are kept


def main():
    parser = argparse.ArgumentParser(prefix_chars="-", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("train", "export", "sample"))
    parser.add_argument("-teacher", required=True)
    parser.add_argument("-train")
    parser.add_argument("-from", dest="start")
    parser.add_argument("-out")
    parser.add_argument("-mcp", action="store_true")
    parser.add_argument("-pool")
    parser.add_argument("-inner", type=int, default=768, help="numbers of the feed-forward part that are kept")
    parser.add_argument("-steps", type=int, default=900)
    parser.add_argument("-shares", default="6,1.5,3", help="of tasks of tools, tasks of catalogs and rows")
    parser.add_argument("-batch", type=int, default=96)
    parser.add_argument("-rate", type=float, default=1e-4)
    parser.add_argument("-seed", type=int, default=1)
    parser.add_argument("-narrow", type=int, default=192, help="numbers of a piece in the exported file")
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(os.path.join(options.teacher, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    {"train": train, "export": export, "sample": sample}[options.what](options, tokenizer)


def split(tokenizer, texts, most):
    """Returns the numbers of the pieces of each text, at most most of them."""
    out = [e.ids for e in tokenizer.encode_batch(list(texts))]
    return [ids if len(ids) <= most else ids[: most - 1] + ids[-1:] for ids in out]


def filled(some, lengths):
    """Returns texts as an array whose width is one of the lengths, so that few programs are compiled."""
    length = next(n for n in lengths if n >= max(map(len, some)))
    out = np.zeros((len(some), length), np.int32)
    for row, ids in zip(out, some):
        row[: len(ids)] = ids
    return out


def loss(learned, texts_of_tasks, texts_of_tools, right, there, weights):
    """Minus the logarithm of the probability of a task's tools among those that are there; where each tool has a task, also
    half that of the reverse."""
    params, sharpness = learned
    of_tasks, of_tools = model.forward(params, texts_of_tasks, 0), model.forward(params, texts_of_tools, 1)
    scores = jnp.where(there, jnp.exp(sharpness) * of_tasks @ of_tools.T, -1e9)
    each = jax.nn.logsumexp(scores, 1) - jax.nn.logsumexp(jnp.where(right, scores, -1e9), 1)
    reverse = jax.nn.logsumexp(scores, 0) - jnp.diag(scores)
    each += jnp.where((right == jnp.eye(len(right), dtype=bool)).all(), 0.5 * reverse, 0)
    return (each * weights).sum() / weights.sum()


@jax.jit
def step(learned, mean, square, n, rate, *batch):
    """Takes a step of Adam, with the gradient cut to length 1."""
    value, slope = jax.value_and_grad(loss)(learned, *batch)
    cut = jnp.minimum(1, 1 / jnp.sqrt(sum((x * x).sum() for x in jax.tree.leaves(slope))))
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g * cut, mean, slope)
    square = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * (g * cut) ** 2, square, slope)
    learned = jax.tree.map(
        lambda x, m, v: x - rate * (m / (1 - 0.9**n)) / (jnp.sqrt(v / (1 - 0.99**n)) + 1e-8), learned, mean, square)
    return learned, mean, square, value


def train(options, tokenizer):
    chance = random.Random(options.seed)
    everyday = pairs.read_everyday(os.path.join(os.path.dirname(__file__), "everyday.txt"))
    ours = tasks.Tasks(options.pool, chance)
    sources = (ours.of_tools, ours.of_catalog, tasks.Rows(pairs.read_rows(options.train, options.mcp), everyday, chance).batch)
    shares = [float(share) for share in options.shares.split(",")]
    if options.start:
        params, sharpness = model.load(options.start)
    else:
        params, sharpness = model.from_teacher(options.teacher, inner=options.inner), np.log(20.0)
    learned = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (params, sharpness))
    mean = square = jax.tree.map(jnp.zeros_like, learned)
    steps, losses, began = options.steps, [], time.time()
    for n in range(1, steps + 1):
        some_tasks, some_tools, *rest = chance.choices(sources, shares)[0](options.batch)
        rate = options.rate * min(1, n / 50) * max(0.03, 1 - n / steps)
        learned, mean, square, value = step(
            learned, mean, square, n, rate, filled(split(tokenizer, some_tasks, TASK_LENGTHS[-1]), TASK_LENGTHS),
            filled(split(tokenizer, some_tools, TOOL_LENGTHS[-1]), TOOL_LENGTHS), *rest)
        losses.append(float(value))
        if n % 100 == 0 or n == steps:
            print(f"step {n} of {steps}: loss {np.mean(losses[-100:]):.3f}, {time.time() - began:.0f} s", flush=True)
            model.save(options.out, *learned)


def export(options, tokenizer):
    params, _ = model.load(options.start)
    often = np.zeros(len(params["word"]))
    chance = random.Random(options.seed)
    for tools in pairs.read_rows(options.train, options.mcp).values():
        some = chance.sample(tools, min(len(tools), OFTEN_READ))
        for e in tokenizer.encode_batch([t["name"] + " " + t["description"] for t in some] + [q for t in some for q in t["tasks"]]):
            np.add.at(often, e.ids, 1)
    names = [tokenizer.id_to_token(i) for i in range(len(often))]
    keep = [i for i, name in enumerate(names) if name in ("[UNK]", "[CLS]", "[SEP]")
            or name.isascii() and not name.startswith("[unused") and (often[i] > 0 or i < COMMON)]
    params["word"] = params["word"][keep]
    if options.narrow < params["word"].shape[1]:
        params["word"], params["widen"] = model.narrowed(params["word"], often[keep] + 1, options.narrow)
    file = model.encoded(params, [names[i] for i in keep])
    with open(options.out, "wb") as out:
        out.write(file)
    print(f"{len(keep)} pieces, {len(file)} bytes")


SAMPLES = (
    (0, "send a mail to Tom that I'll be late"),
    (0, "Café-Liste öffnen, bitte! 北京"),
    (0, ""),
    (1, "mail send message. Send an e-mail to one or more recipients."),
    (1, "kubernetes get pods. " + "List pods of a namespace, with their state and restarts. " * 9),
)


def sample(options, tokenizer):
    """Writes a small random model, and the vectors of some texts."""
    chance = np.random.default_rng(options.seed)
    ids = split(tokenizer, [text for _, text in SAMPLES], model.PLACES)
    keep = sorted({UNKNOWN}.union(*ids))

    def numbers(*shape):
        return chance.normal(0, shape[0] ** -0.5, shape).astype(np.float32)

    def pair(*shape):
        return numbers(*shape), numbers(shape[-1]) / 10

    narrow, width, inner, dim = 32, 48, 64, 16
    unit = np.ones(width, np.float32)
    dense = dict.fromkeys(("query", "key", "value", "join"), (width, width)) | {"up": (width, inner), "down": (inner, width)}
    layers = [{k: pair(*v) for k, v in dense.items()} | {"attended": (unit, unit / 9), "fed": (unit, -unit / 9)} for _ in range(2)]
    params = {
        "word": numbers(len(keep), narrow) * len(keep) ** 0.5, "widen": numbers(narrow, width), "place": numbers(model.PLACES, width),
        "role": numbers(2, width), "first": (unit, unit / 9), "layers": layers, "out": numbers(width, dim),
    }
    with open(os.path.join(options.out, "model.bin"), "wb") as out:
        out.write(model.encoded(params, [tokenizer.id_to_token(i) for i in keep]))
    with open(os.path.join(options.out, "vectors.jsonl"), "w") as out:
        for (role, text), pieces in zip(SAMPLES, ids):
            vector = model.forward(params, np.array([[keep.index(i) for i in pieces]]), role, np.ones((1, len(pieces))))[0]
            out.write(json.dumps({"role": role, "text": text, "vector": [round(float(x), 4) for x in vector]}) + "\n")


if __name__ == "__main__":
    main()
