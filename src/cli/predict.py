#!/usr/bin/env python3
"""Predicts the labels of new rows with the exported model beside this file. Needs NumPy and SciPy, and not `pipe`.

    python3 predict.py ROWS            LIBSVM text, or CSV or JSON lines with texts (by their suffix)

Prints one JSON object per row. What it could only do differently from `pipe predict` (networks, n-grams, stop words, scripts
with combining marks, other formats) it refuses. `pipe predict` computes in single precision and this program in double
precision, so that a score may differ in its last digits.
"""

import csv
import json
import math
import os
import re
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix, hstack, vstack

HERE = Path(__file__).parent


def refuse(reason):
    sys.exit(f"predict.py: {reason}; use `pipe predict`")


def fail(reason):
    sys.exit(f"predict.py: {reason}")


def read_json(path):
    return json.loads((HERE / path).read_text(encoding="utf-8"))


def read_matrix(path):
    """Reads a matrix: a header of 128 bytes, then sections that start at multiples of 64."""
    data = (HERE / path).read_bytes()
    valued = int.from_bytes(data[16:20], "little")
    rows, cols, entries = (int(n) for n in np.frombuffer(data, "<u8", 3, 24))
    if data[:8] == b"PIPE-DNS":
        return np.frombuffer(data, "<f4", rows * cols, 128).reshape(rows, cols).astype(float)
    after = lambda offset: -(-offset // 64) * 64
    indices = np.frombuffer(data, "<u4", entries, 128)
    at = after(128 + 4 * entries)
    values = np.ones(entries)
    if valued:
        values = np.frombuffer(data, "<f4", entries, at).astype(float)
        at = after(at + 4 * entries)
    return csr_matrix((values, indices.astype(int), np.frombuffer(data, "<u8", rows + 1, at).astype(int)), (rows, cols))


def unit_rows(rows):
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return csr_matrix(rows.multiply(np.where(norms > 0, 1 / np.where(norms > 0, norms, 1), 0)[:, None]))


def read_texts(path):
    column = read_json("stages.json")["text_column"] or "text"
    csv.field_size_limit(1 << 30)
    texts = []
    with open(path, newline="", encoding="utf-8-sig") as file:
        if path.endswith(".csv"):
            lines = csv.DictReader(file)
            if column not in (lines.fieldnames or [column]):
                fail(f"{path} has no column `{column}`; its columns are {', '.join(lines.fieldnames)}")
        else:
            lines = map(json.loads, file)
        for line in lines:
            text = line.get(column) if isinstance(line, dict) else None
            if not isinstance(text, str):
                fail(f"row {len(texts)} of {path} has no text in `{column}`")
            texts.append(text)
    return texts


# Options that are known here. Others change which words a text has, and are written only if they are set.
OPTIONS = {"lowercase", "min_rows", "max_features", "max_share", "sublinear_tf", "idf", "l2"}


def text_row(number, text, vocabulary, numbers):
    options = vocabulary["options"]
    unknown = set(options) - OPTIONS
    if unknown:
        refuse(f"the words of this model were made with the options {', '.join(sorted(unknown))}")
    # `pipe` takes some of these characters for letters, and Python takes none of them for letters.
    if any(unicodedata.category(character) in ("Mn", "Mc", "Me", "So") for character in text):
        refuse(f"row {number}: the text {text[:40]!r} has combining marks or symbols, which Python separates from words")
    words = re.findall(r"\w\w+", text)
    counts = Counter(numbers.get(word.lower() if options["lowercase"] else word) for word in words)
    row = {}
    for feature, count in counts.items():
        if feature is not None:
            idf = math.log((1 + vocabulary["rows"]) / (1 + vocabulary["row_counts"][feature])) + 1
            row[feature] = (1 + math.log(count) if options["sublinear_tf"] else count) * (idf if options["idf"] else 1)
    norm = math.sqrt(sum(value * value for value in row.values())) if options["l2"] and row else 1
    return {feature: value / norm for feature, value in row.items()}


def read_rows(path, meta):
    """Returns the rows of a file, with their features as in the training data."""
    if (HERE / "data/vocabulary.json").exists():
        vocabulary = read_json("data/vocabulary.json")
        numbers = {word: number for number, word in enumerate(vocabulary["words"])}
        rows = [text_row(number, text, vocabulary, numbers) for number, text in enumerate(read_texts(path))]
    else:
        if meta["report"]["format"] != "libsvm":
            refuse(f"the model was trained on {meta['report']['format']}, and only LIBSVM text and texts can be read")
        base = meta["report"]["feature_base"]["first"]
        lines = [line for line in open(path, encoding="utf-8").read().splitlines() if not line.startswith("#")]
        lines = [line.split("#")[0] for line in lines]
        if lines and re.fullmatch(r"\d+\s+\d+\s+\d+\s*", lines[0]):
            refuse("the first line looks like the header of an XMC file")
        pairs = ([word.split(":") for word in line.split() if ":" in word] for line in lines)
        rows = [{int(feature) - base: float(value) for feature, value in row} for row in pairs]
    if not rows:
        fail(f"{path} contains no rows")
    indptr = np.cumsum([0] + [len(row) for row in rows])
    indices = [feature for row in rows for feature in row]
    values = [value for row in rows for value in row.values()]
    features = csr_matrix((values, indices, indptr), (len(rows), meta["features_before"]))
    transform = read_json("data/transform.json")
    if transform.get("log"):
        features.data = np.copysign(np.log1p(np.abs(features.data)), features.data)
    if transform["idf"] is not None:
        features = csr_matrix(features.multiply(np.array(transform["idf"])))
    if transform.get("standardise"):
        mean, scale = (np.array(transform["standardise"][part]) for part in ("mean", "scale"))
        features = csr_matrix((features.toarray() - mean) * scale)
    if transform.get("clip"):
        features.data = np.clip(features.data, -transform["clip"], transform["clip"])
    if transform["kept"] is not None:
        features = features[:, transform["kept"]]
    return unit_rows(features) if transform["l2"] else features


def ridge(rows, directory, config):
    weights = read_matrix(f"{directory}/weights.dense")
    return rows @ weights[:-1] + config["constant"] * weights[-1]


def kernel_ridge(rows, directory, config):
    train = read_matrix(f"{directory}/features.csr")
    euclidean = (HERE / directory / "kernel.json").exists()
    units = rows if euclidean else unit_rows(rows)
    train = train if euclidean else unit_rows(train)
    squares = lambda matrix: np.asarray(matrix.multiply(matrix).sum(axis=1))
    block_rows, block_labels = (read_matrix(f"{directory}/block_{what}.csr") for what in ("rows", "labels"))
    nearest = np.argmax(rows @ read_matrix(f"{directory}/centres.dense").T, axis=1)
    scores = np.zeros((rows.shape[0], block_labels.shape[1]))
    for block in range(block_rows.shape[0]):
        chosen, labels = np.flatnonzero(nearest == block), block_labels[block].indices
        if len(chosen) and len(labels):
            near = train[block_rows[block].indices]
            exponents = (units[chosen] @ near.T).toarray() - 1
            if euclidean:
                median = read_json(f"{directory}/kernel.json")["median_squared_distance"]
                distances = squares(units[chosen]) + squares(near).T - 2 * (exponents + 1)
                exponents = -np.maximum(distances, 0) / median
            dual = read_matrix(f"{directory}/dual-{block}.dense")
            scores[np.ix_(chosen, labels)] = np.exp(config["gamma"] * exponents) @ dual
    return scores


def neighbours(rows, directory, config):
    train, labels = unit_rows(read_matrix(f"{directory}/features.csr")), read_matrix(f"{directory}/labels.csr")
    scores = []
    for row in unit_rows(rows):
        cosines = (row @ train.T).toarray().ravel().astype(np.float32)
        near = np.argsort(-cosines, kind="stable")[: config["neighbours"]]
        near = near[cosines[near] > 0]
        weights = np.ones(len(near)) if config["weighting"] == "uniform" else cosines[near].astype(float) ** 2
        scores.append(csr_matrix(weights / max(weights.sum(), 1e-38)) @ labels[near] if len(near) else labels[:1] * 0)
    return vstack(scores).toarray()


def label_tree(rows, directory, config):
    children, leaves, inputs, weights = (
        read_matrix(f"{directory}/{name}.csr") for name in ("children", "leaves", "inputs", "weights")
    )
    roots = sorted(set(range(children.shape[0])) - set(children.indices))
    rows = csr_matrix(hstack([rows, np.ones((rows.shape[0], 1))]))
    scores = np.zeros((rows.shape[0], leaves.shape[1]))
    for number, row in enumerate(rows):
        for root in roots:
            level = [(0.0, root)]
            while level:
                below = []
                for logarithm, node in level:
                    span = slice(inputs.indptr[node], inputs.indptr[node + 1])
                    values = np.asarray(row[:, inputs.indices[span]] @ weights[span].toarray()).ravel()
                    logs = logarithm - np.maximum(0, 1 - values) ** 3
                    found = leaves[node].indices
                    scores[number, found] += np.exp(logs[: len(found)]) / len(roots)
                    below += zip(logs, children[node].indices)
                level = sorted(below, key=lambda visit: (-visit[0], visit[1]))[: config["beam"]]
    return scores


KINDS = {"ridge": ridge, "kernel_ridge": kernel_ridge, "block_kernel_ridge": kernel_ridge,
         "neighbours": neighbours, "label_tree": label_tree}  # fmt: skip


def best(scores, count):
    """Returns the best labels of a row; of equal ones the first."""
    return np.argsort(-scores, kind="stable")[:count]


def main():
    if sys.argv[1:] in (["-h"], ["--help"]):
        return print(__doc__.strip())
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    meta, model = read_json("data/meta.json"), read_json("model.json")
    try:
        rows = read_rows(sys.argv[1], meta)
    except OSError as error:
        fail(f"cannot read {sys.argv[1]}: {error.strerror}")
    except (ValueError, csv.Error) as error:
        fail(f"cannot read {sys.argv[1]}: {error}")
    tables, candidates = [], None
    for part in model["parts"]:
        kind = part["model"]["kind"]
        if kind not in KINDS:
            refuse(f"models of the kind `{kind}` are not supported")
        scores = np.asarray(KINDS[kind](rows, part["directory"], part["model"]))
        if part["keep"] is not None:
            kept = np.zeros(scores.shape, bool)
            for own, row in zip(kept, scores):
                own[best(row, part["keep"])] = True
            kept &= scores > 0
            scores = np.where(kept, scores, part["rest"])
            candidates = kept if candidates is None else candidates | kept
        tables.append(scores)
    scores, fusion, cut = tables[0], model["fusion"], 0.5
    if fusion:
        idf = np.log(fusion["rows"] / np.maximum(np.array(fusion["counts"], float), 0.5))
        columns = [np.log(np.maximum(s, 0) + t["floor"]) for t, s in zip(fusion["terms"], tables)] + [idf]
        weights = [t["weight"] for t in fusion["terms"]] + [fusion["idf_weight"]]
        scores, cut = sum(w * c for w, c in zip(weights, columns)) + fusion["constant"], 0.0
        products = (a * b for at, a in enumerate(columns) for b in columns[at:])
        scores = scores + sum(w * p for w, p in zip(fusion.get("products", []), products))
    if candidates is not None:
        scores = np.where(candidates, scores, -np.inf)
    decision = (model["cuts"] or {}).get("decision", {"kind": "per_label", "cuts": [cut] * scores.shape[1]})
    if decision["kind"] != "per_label":
        refuse(f"the rule `{decision['kind']}` is not supported")
    cuts = np.array([math.inf if cut is None else cut for cut in decision["cuts"]])
    names = HERE / "data/label_names.jsonl"
    names = [json.loads(line) for line in names.open(encoding="utf-8")] if names.exists() else None
    for number, row in enumerate(scores):
        labels = [int(label) for label in np.flatnonzero(row > cuts)]
        named = [{"label": label, **({"name": names[label]} if names else {}), "score": float(row[label])} for label in labels]
        print(json.dumps({"row": number, "labels": named}, ensure_ascii=False))


try:
    main()
    sys.stdout.flush()
except BrokenPipeError:
    # The reader, such as `head`, wants no more. Python would complain when it closes the output.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
