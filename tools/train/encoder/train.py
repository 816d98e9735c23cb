"""Trains the sentence encoder of ../../../internal/encoder.

    python train.py train  -teacher DIR -train DIR -out student.npz [-from student.npz]
    python train.py export -teacher DIR -train DIR -from student.npz -out model.bin
    python train.py sample -teacher DIR -out ../../../internal/encoder/testdata

It starts from layers of all-MiniLM-L6-v2 (Apache-2.0, sentence-transformers): the folder -teacher has its
model.safetensors and tokenizer.json. It learns to be near the teacher's vectors, and to tell the tool of a task from others, from
the rows of -train (see pairs.py for their form, and the README of that folder for sources and licences) and from everyday.txt, which
was written for this project. Nothing of the data that ../measure.go measures with is learned, unless -mcp adds the rows of MCP
registries, which list some of the same servers.

It needs Python 3.11 with numpy, jax, tokenizers and safetensors. Seeds are fixed. One thread takes about two seconds for
100 pairs. sample writes a small random model and its vectors, which the tests of the Go package compare with.
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

TASK_LENGTHS, TOOL_LENGTHS = (16, 24), (24, 32)  # pieces, to which texts are filled up
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
    parser.add_argument("-layers", default="0,2,5", help="of the teacher")
    parser.add_argument("-inner", type=int, default=768, help="numbers of the feed-forward part that are kept")
    parser.add_argument("-pairs", type=int, default=110_000)
    parser.add_argument("-batch", type=int, default=96)
    parser.add_argument("-rate", type=float, default=2e-4)
    parser.add_argument("-distil", type=float, default=4, help="weight of the distance to the teacher's vectors")
    parser.add_argument("-seed", type=int, default=7)
    parser.add_argument("-narrow", type=int, default=256, help="numbers of a piece in the exported file")
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


def loss(learned, distil, tasks, tools, weights, same, taught_tasks, taught_tools):
    """Minus the logarithm of the probability of a task's tool among those of the batch, half that of the reverse, and
    distil times the cosine distances to the teacher's vectors."""
    params, sharpness = learned
    of_tasks, of_tools = model.forward(params, tasks, 0), model.forward(params, tools, 1)
    scores = jnp.where(same, -1e9, jnp.exp(sharpness) * of_tasks @ of_tools.T)
    right = jnp.diag(scores)
    each = jax.nn.logsumexp(scores, 1) - right + 0.5 * (jax.nn.logsumexp(scores, 0) - right)
    far = 2 - (of_tasks * taught_tasks).sum(1).mean() - (of_tools * taught_tools).sum(1).mean()
    return (each * weights).sum() / weights.sum() + distil * far


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
    rows = pairs.read_rows(options.train, options.mcp)
    everyday = pairs.read_everyday(os.path.join(os.path.dirname(__file__), "everyday.txt"))
    if options.start:
        params, sharpness = model.load(options.start)
    else:
        params = model.from_teacher(options.teacher, [int(n) for n in options.layers.split(",")], options.inner)
        sharpness = np.log(20.0)
    learned = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (params, sharpness))
    teacher = jax.tree.map(jnp.asarray, model.from_teacher(options.teacher))
    teach = jax.jit(lambda texts: model.forward(teacher, texts, 0))
    mean = square = jax.tree.map(jnp.zeros_like, learned)
    n, steps, size, losses, began = 0, options.pairs // options.batch, options.batch, [], time.time()
    while n < steps:
        drawn = pairs.epoch(rows, everyday, chance)
        tasks = split(tokenizer, [p[0] for p in drawn], TASK_LENGTHS[-1])
        tools = split(tokenizer, [p[1] for p in drawn], TOOL_LENGTHS[-1])
        weights = np.array([p[2] for p in drawn], np.float32)
        numbers = {}
        tool = np.array([numbers.setdefault(p[3], len(numbers)) for p in drawn])
        for at in chance.sample(range(0, len(drawn) - size, size), (len(drawn) - 1) // size):
            if (n := n + 1) > steps:
                break
            part = slice(at, at + size)
            same = (tool[part, None] == tool[None, part]) & ~np.eye(size, dtype=bool)
            rate = options.rate * min(1, n / 50) * max(0.03, 1 - n / steps)
            some_tasks, some_tools = filled(tasks[part], TASK_LENGTHS), filled(tools[part], TOOL_LENGTHS)
            learned, mean, square, value = step(
                learned, mean, square, n, rate, options.distil, some_tasks, some_tools, weights[part], same,
                teach(some_tasks), teach(some_tools))
            losses.append(float(value))
            if n % 100 == 0:
                print(f"step {n} of {steps}: loss {np.mean(losses[-100:]):.3f}, {time.time() - began:.0f} s", flush=True)
                model.save(options.out, *learned)
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
