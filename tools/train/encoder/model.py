"""The transformer of ../../../internal/encoder in jax, and its files.

Parameters are a dictionary: word (pieces × narrow), widen (narrow × width; the teacher has none), place, role, first
(gain, shift), layers, each with query, key, value, join, up, down (matrix, bias) and attended, fed (gain, shift); and out
(width × dim, absent if the vector is the mean itself).
"""

import itertools
import os
import struct

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file

HEADS = 12
PLACES = 64
DENSE = {
    "query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
    "join": "attention.output.dense", "up": "intermediate.dense", "down": "output.dense",
}
NORMAL = {"attended": "attention.output.LayerNorm", "fed": "output.LayerNorm"}


def from_teacher(folder):
    """Returns the parameters of a BERT of six layers."""
    weights = load_file(os.path.join(folder, "model.safetensors"))
    embeddings = {k.removeprefix("embeddings."): v for k, v in weights.items() if k.startswith("embeddings.")}
    role = embeddings["token_type_embeddings.weight"][0]
    params = {
        "word": embeddings["word_embeddings.weight"],
        "place": embeddings["position_embeddings.weight"][:PLACES],
        "role": np.stack([role, role]),
        "first": (embeddings["LayerNorm.weight"], embeddings["LayerNorm.bias"]),
        "layers": [],
    }
    for i in range(6):
        of = f"encoder.layer.{i}."
        layer = {k: (weights[of + v + ".weight"].T.copy(), weights[of + v + ".bias"]) for k, v in DENSE.items()}
        layer |= {k: (weights[of + v + ".weight"], weights[of + v + ".bias"]) for k, v in NORMAL.items()}
        params["layers"].append(layer)
    return params


def prune(params, inner):
    """Keeps the inner numbers of the feed-forward part that weigh most in each layer."""
    for layer in params["layers"]:
        (up, up_bias), (down, down_bias) = layer["up"], layer["down"]
        keep = np.sort(np.argsort(-np.abs(down).sum(1) * np.abs(up).sum(0))[:inner])
        layer["up"], layer["down"] = (up[:, keep], up_bias[keep]), (down[keep], down_bias)


def normal(x, gain_shift):
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-12) * gain_shift[0] + gain_shift[1]


def forward(params, pieces, role, mask=None, key=None, dropped=0.0):
    """Returns unit vectors of texts: pieces is an array of numbers, 0 after the end of a text unless mask says what counts. While
    it learns, a share of the numbers may be dropped."""
    if mask is None:
        mask = (pieces > 0).astype(jnp.float32)
    draws = itertools.count()

    def drop(x):
        if not dropped:
            return x
        return x * jax.random.bernoulli(jax.random.fold_in(key, next(draws)), 1 - dropped, x.shape) / (1 - dropped)

    x = params["word"][pieces]
    if "widen" in params:
        x = x @ params["widen"]
    x = drop(normal(x + params["place"][: pieces.shape[1]] + params["role"][role], params["first"]))
    texts, length, width = x.shape
    for layer in params["layers"]:
        def dense(x, name):
            return x @ layer[name][0] + layer[name][1]

        def heads(name):
            return dense(x, name).reshape(texts, length, HEADS, width // HEADS)

        scores = jnp.einsum("bthd,bshd->bhts", heads("query"), heads("key")) / np.sqrt(width // HEADS)
        shares = jax.nn.softmax(scores + ((1 - mask) * -1e9)[:, None, None, :], -1)
        taken = jnp.einsum("bhts,bshd->bthd", shares, heads("value")).reshape(x.shape)
        x = normal(x + drop(dense(taken, "join")), layer["attended"])
        x = normal(x + drop(dense(jax.nn.gelu(dense(x, "up"), approximate=False), "down")), layer["fed"])
    mean = (x * mask[:, :, None]).sum(1) / jnp.maximum(mask.sum(1), 1)[:, None]
    if "out" in params:
        mean = mean @ params["out"]
    return mean / jnp.linalg.norm(mean, axis=1, keepdims=True)


def save(path, params, sharpness):
    leaves, _ = jax.tree.flatten(params)
    names = [jax.tree_util.keystr(p) for p, _ in jax.tree_util.tree_flatten_with_path(params)[0]]
    np.savez(path + ".tmp.npz", sharpness=sharpness, **{n: np.asarray(v) for n, v in zip(names, leaves)})
    os.replace(path + ".tmp.npz", path)


def load(path):
    """Returns parameters and sharpness."""
    file = np.load(path)
    params = {"layers": []}
    for key in file.files:
        path = key.strip("[]").replace("'", "").split("][")
        if path[0] == "layers":
            while len(params["layers"]) <= int(path[1]):
                params["layers"].append({})
            params["layers"][int(path[1])].setdefault(path[2], {})[path[3]] = file[key]
        elif path[0] == "first":
            params.setdefault("first", {})[path[1]] = file[key]
        elif path[0] != "sharpness":
            params[path[0]] = file[key]

    def pair(d):
        return d["0"], d["1"]

    params["first"] = pair(params["first"])
    params["layers"] = [{k: pair(v) for k, v in layer.items()} for layer in params["layers"]]
    return params, file["sharpness"]


def narrowed(word, often, narrow):
    """Returns word as a product of two matrices, the first narrow wide, exact for what is frequent."""
    by = np.sqrt(often / often.mean())[:, None]
    _, _, turn = np.linalg.svd(word * by, full_matrices=False)
    return word @ turn[:narrow].T, turn[:narrow]


def quantized(matrix):
    """Returns the scales and the int8 numbers of a matrix's rows."""
    scale = np.maximum(np.abs(matrix).max(1), 1e-12) / 127
    return scale.astype("<f4"), np.clip(np.round(matrix / scale[:, None]), -127, 127).astype(np.int8)


def encoded(params, pieces):
    """Returns the file that package encoder reads; pieces is the list of the pieces of params["word"]."""
    word, layers = params["word"], params["layers"]
    width, inner = layers[0]["up"][0].shape
    dim = params["out"].shape[1] if "out" in params else width
    text = "\n".join(pieces).encode()
    sizes = (len(word), word.shape[1], width, len(layers), HEADS, inner, PLACES, dim, len(text))
    out = [b"mre1", struct.pack("<9I", *sizes), text]

    def matrix(m):
        scale, numbers = quantized(np.asarray(m))
        out.extend([scale.tobytes(), numbers.tobytes()])

    def floats(*vectors):
        out.extend(np.asarray(v, "<f4").tobytes() for v in vectors)

    matrix(word)
    matrix(params["widen"].T)
    matrix(params["place"])
    matrix(params["role"])
    floats(*params["first"])
    for layer in layers:
        for name in ("query", "key", "value", "join"):
            matrix(layer[name][0].T)
            floats(layer[name][1])
        floats(*layer["attended"])
        for name in ("up", "down"):
            matrix(layer[name][0].T)
            floats(layer[name][1])
        floats(*layer["fed"])
    if "out" in params:
        matrix(params["out"].T)
    return b"".join(out)
