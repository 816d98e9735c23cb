"""Trains the sentence encoder of ../../../internal/encoder.

    python train.py train  -teacher DIR -train DIR -pool FILE -out student.npz
    python train.py export -teacher DIR -train DIR -from student.npz -out model.bin
    python train.py sample -teacher DIR -out ../../../internal/encoder/testdata

It starts from all-MiniLM-L6-v2 (Apache-2.0, sentence-transformers): the folder -teacher has its model.safetensors and
tokenizer.json. Three copies of it learn to tell the tool of a task from others, above all from others of the same server. The
student starts from their mean, with half of the inner numbers of its layers and a narrow table of pieces, and learns which
probabilities they give.

They learn from tasks.jsonl.gz and everyday.txt, which were written for this project, over the tools of -pool (lists of tools
of public MCP servers, see tasks.py), and from the rows of -train, "names-*" and "tasks-*" with {"source", "query", "positive"
or "name", "description"} (see pairs.py, and the README of that folder for sources and licences). The data that ../measure.go
measures with are not learned: neither their tasks nor the servers that they need. The pool has the other tools of the corpus
"large". -mcp adds the rows of MCP registries, which list some of the same servers.

The model in the program was made by a script with the same batches, steps and losses, and 25,000 rows each of names-npm and
names-pypi. This recipe with the same rows, in seven minutes of one H100, makes a model that finds as much: of 900 tasks of ten
catalogs that nothing was fitted to, the right tool is first / in three / in ten for 80 / 93 / 99 % (in the program 80 / 94 / 99).
A processor takes minutes for a step: try it with -batch 64 -steps 4. It needs Python 3.11 with numpy, jax, tokenizers and
safetensors. Seeds are fixed. sample writes a small random model and its vectors, which the tests of the Go package compare with.
"""

import argparse
import functools
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

TASK_LENGTH, TOOL_LENGTH = 24, 32  # pieces of a text, at most
TEACHERS = 3
SHARES = 6, 1, 3  # of batches of servers, of catalogs and of rows
DROPPED = 0.1  # of the numbers of a teacher while it learns
OF_TEACHERS = 0.6  # the weight of the teachers' probabilities in the student's loss
ALIKE = 0.9  # tools whose vectors, before all training, have at least this product are no wrong answers for each other
AT_ONCE = 2048  # texts
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
    parser.add_argument("-inner", type=int, default=768, help="numbers of the feed-forward part that the student keeps")
    parser.add_argument("-narrow", type=int, default=256, help="numbers of a piece in the student's table")
    parser.add_argument("-steps", type=int, default=4000, help="of the student; a teacher takes 3/16 of them")
    parser.add_argument("-batch", type=int, default=1024)
    parser.add_argument("-seed", type=int, default=1)
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(os.path.join(options.teacher, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    {"train": train, "export": export, "sample": sample}[options.what](options, tokenizer)


def split(tokenizer, texts, most):
    """Returns the numbers of the pieces of each text, at most most of them."""
    out = [e.ids for e in tokenizer.encode_batch(list(texts))]
    return [ids if len(ids) <= most else ids[: most - 1] + ids[-1:] for ids in out]


def filled(tokenizer, texts, length):
    """Returns the numbers of the pieces of each text, filled up with 0."""
    out = np.zeros((len(texts), length), np.int32)
    for row, ids in zip(out, split(tokenizer, texts, length)):
        row[: len(ids)] = ids
    return jnp.asarray(out)


@functools.partial(jax.jit, static_argnums=2)
def vectors(params, pieces, role):
    return model.forward(params, pieces, role)


def encoded(params, pieces, role):
    """Returns the vectors of all texts."""
    return np.concatenate([vectors(params, pieces[i : i + AT_ONCE], role) for i in range(0, len(pieces), AT_ONCE)])


def loss(learned, pieces, batch, alike, taught, key, dropped):
    """Minus the logarithm of the probability of a task's tools among those that are there, and half that of the reverse if each
    tool has a task. With teachers, the same against their probabilities, too."""
    params, sharpness = learned
    keys = jax.random.split(key)
    _, _, right, there, weights, both = batch
    of_tasks, of_tools = (model.forward(params, x, role, None, keys[role], dropped) for role, x in enumerate(pieces))
    there &= (alike @ alike.T < ALIKE) | right
    scores = jnp.where(there, jnp.exp(sharpness) * of_tasks @ of_tools.T, -1e9)
    each = jax.nn.logsumexp(scores, 1) - jax.nn.logsumexp(jnp.where(right, scores, -1e9), 1)
    reverse = jax.nn.logsumexp(scores, 0) - jnp.diag(scores)
    if taught:
        believed = jnp.where(there, taught[2] * taught[0] @ taught[1].T, -1e9)

        def against(axis):
            return -jnp.where(there, jax.nn.softmax(believed, axis) * jax.nn.log_softmax(scores, axis), 0).sum(axis)

        each = (1 - OF_TEACHERS) * each + OF_TEACHERS * against(1)
        reverse = (1 - OF_TEACHERS) * reverse + OF_TEACHERS * against(0)
    return ((each + both * 0.5 * reverse) * weights).sum() / weights.sum()


@functools.partial(jax.jit, static_argnames="dropped")
def step(learned, mean, square, n, rate, tables, batch, key, dropped):
    """Takes a step of Adam, with the gradient cut to length 1. The tables have a row for each text: pieces of tasks and of tools,
    vectors of tools before all training, and, with teachers, their vectors of tasks and of tools, and their sharpness."""
    some_tasks, some_tools = batch[:2]
    taught = tables[3:] and (tables[3][some_tasks], tables[4][some_tools], tables[5])
    pieces = tables[0][some_tasks], tables[1][some_tools]
    value, slope = jax.value_and_grad(loss)(learned, pieces, batch, tables[2][some_tools], taught, key, dropped)
    cut = jnp.minimum(1, 1 / jnp.sqrt(sum((x * x).sum() for x in jax.tree.leaves(slope))))
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g * cut, mean, slope)
    square = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * (g * cut) ** 2, square, slope)
    learned = jax.tree.map(
        lambda x, m, v: x - rate * (m / (1 - 0.9**n)) / (jnp.sqrt(v / (1 - 0.99**n)) + 1e-8), learned, mean, square)
    return learned, mean, square, value


def learn(name, learned, steps, rate, seed, batches, size, tables, dropped=0.0):
    """Returns the parameters and the sharpness after these steps, the first 60 of which are shorter."""
    chance = batches.chance = random.Random(seed)
    learned = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), learned)
    mean = square = jax.tree.map(jnp.zeros_like, learned)
    losses, began, key = [], time.time(), jax.random.PRNGKey(seed)
    for n in range(1, steps + 1):
        batch = chance.choices((batches.of_servers, batches.of_catalogs, batches.of_rows), SHARES)[0](size)
        now = rate * min(1, n / 60) * max(0.02, 1 - n / steps)
        learned, mean, square, value = step(
            learned, mean, square, float(n), now, tables, batch, jax.random.fold_in(key, n), dropped=dropped)
        losses.append(value)
        if n % 250 == 0 or n == steps:
            print(f"{name}, step {n} of {steps}: loss {np.mean(losses[-100:]):.3f}, {time.time() - began:.0f} s", flush=True)
    return learned


def train(options, tokenizer):
    everyday = pairs.read_everyday(os.path.join(os.path.dirname(__file__), "everyday.txt"))
    rows = pairs.read_rows(options.train, options.mcp)
    batches = tasks.Batches(options.pool, rows, everyday, random.Random(options.seed))
    pieces = filled(tokenizer, batches.tasks, TASK_LENGTH), filled(tokenizer, batches.tools, TOOL_LENGTH)
    first = model.from_teacher(options.teacher)
    tables = *pieces, jnp.asarray(encoded(first, pieces[1], 1))
    teachers = [
        learn(f"teacher {seed}", (first, np.log(20.0)), options.steps * 3 // 16, 1.2e-4, seed, batches, options.batch, tables, DROPPED)
        for seed in range(options.seed, options.seed + TEACHERS)
    ]
    teachers.append(jax.tree.map(lambda *x: sum(x) / TEACHERS, *teachers))
    for role in (0, 1):
        each = [encoded(params, pieces[role], role) for params, _ in teachers]
        tables += (jnp.asarray(np.concatenate(each, 1) / np.sqrt(len(each))),)
    params, sharpness = jax.tree.map(np.asarray, teachers[-1])
    tables += (float(np.exp(sharpness)),)
    often = sum(np.bincount(np.asarray(some).ravel(), minlength=len(params["word"])) for some in pieces)
    often[0] = 0
    model.prune(params, options.inner)
    params["word"], params["widen"] = model.narrowed(params["word"], often + 1.0, options.narrow)
    model.save(options.out, *learn("student", (params, sharpness), options.steps, 3e-4, options.seed + 6, batches, options.batch, tables))


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
