#!/usr/bin/env python3
"""Predicts the labels of new rows with the exported model beside this file. Needs NumPy and SciPy, and not `pipe`.

Reads what `pipe predict` reads: CSV or JSON lines with texts, or LIBSVM text, XMC text, ARFF or a NumPy array (but not
safetensors), also compressed by gzip or bzip2. Prints one JSON object per row. `pipe predict` computes in single precision and this
program in double precision, so that a score may differ in its last digits. It refuses models with networks and rules other than
one cut per label, and single rows whose text has letters that this version of Python does not know: they get an `error` in place
of labels, and the exit status is 1.
"""

import argparse
import bz2
import csv
import gzip
import io
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


def read_json(path, otherwise=None):
    if otherwise is not None and not (HERE / path).exists():
        return otherwise
    return json.loads((HERE / path).read_text(encoding="utf-8"))


def read_names(path):
    """Returns the names in a file of the data set; `None` if there is no such file."""
    path = HERE / "data" / path
    return [json.loads(line) for line in path.open(encoding="utf-8")] if path.exists() else None


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


def single(values):
    """Rounds to single precision, in which features are stored."""
    return np.asarray(values, np.float32).astype(float)


def unit_rows(rows):
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return csr_matrix(rows.multiply(np.where(norms > 0, 1 / np.where(norms > 0, norms, 1), 0)[:, None]))


def read_file(path):
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        return gzip.decompress(data)
    if data[:3] == b"BZh":
        return bz2.decompress(data)
    if data[:4] == b"\x28\xb5\x2f\xfd":
        refuse("files that zstd compressed are not supported")
    return data


def format_of(data):
    """Recognises the format as `pipe` does."""
    if data.startswith(b"\x93NUMPY"):
        return "NumPy"
    if len(data) > 8 and data[8:9] == b"{" and 1 < int.from_bytes(data[:8], "little") < 100_000_000:
        return "safetensors"
    lines = data[: 1 << 16].decode("utf-8-sig", "replace").split("\n")
    filled = [line.strip() for line in lines if line.strip()] or [""]
    declared = [line for line in filled if not line.startswith("%")]
    if declared and declared[0][:9].lower() == "@relation":
        return "ARFF"
    if filled[0].startswith("{"):
        return "JSON lines"
    if re.fullmatch(r"\d+\s+\d+\s+\d+", lines[0].strip()):
        return "XMC"
    row = next((line for line in filled if not line.startswith("#")), "")
    if re.fullmatch(r"\d+|\d+:\S*|(\d+(,\d+)*|\d+:\S*)\s+\d+:.*", row):
        return "LIBSVM"
    return "CSV"


# Texts


def read_table(text, format):
    """Returns the names of the columns, and the rows as dictionaries."""
    if format == "JSON lines":
        rows = [json.loads(line) for line in text.split("\n") if line.strip()]
        if not all(isinstance(row, dict) for row in rows):
            fail("a line is not a JSON object")
        return {name for row in rows for name in row}, rows
    csv.field_size_limit(1 << 30)
    first = next((line for line in re.split("[\r\n]", text) if line), "")
    separator = max(",\t;", key=first.count)
    end = "\x01end of text\x01"
    records = list(csv.reader(io.StringIO(f"{text}\n{end}\n", newline=""), delimiter=separator))
    if records.pop() != [end]:
        fail("a quote is not closed")
    width = len(next(filter(None, records), []))
    records = [record for record in records if record and (record != [""] or width == 1)]
    if not records:
        fail("the file is empty")
    names, *records = records
    names = [name.strip() for name in names]
    for number, record in enumerate(records):
        if len(record) != width:
            fail(f"row {number} has {len(record)} columns, but the first row has {width}")
    return names, [dict(zip(names, record)) for record in records]


def read_texts(data, format):
    """Returns the texts and, if a column of ids is known, the ids of the rows."""
    stages = read_json("stages.json")
    column, key = stages["text_column"] or "text", stages.get("join_column")
    names, rows = read_table(data.decode("utf-8-sig"), format)
    if column not in names and "text" in names:
        column = "text"
    for name in filter(None, (column, key)):
        if name not in names:
            fail(f"there is no column `{name}`; the columns are {', '.join(sorted(names))}")
    if not key:
        for number, row in enumerate(rows):
            if not isinstance(row.get(column), str):
                fail(f"row {number} has no text in `{column}`")
        return [row[column] for row in rows], None
    joined = {}
    for row in rows:
        own = row[key].strip()
        if own and all(row[name].strip() == value for name, value in stages.get("only", {}).items() if name in names):
            joined.setdefault(own, []).append(row[column].strip())
    return ["\n".join(texts) for texts in joined.values()], list(joined)


class Vocabulary:
    def __init__(self):
        stored = read_json("data/vocabulary.json")
        self.options, self.rows, self.row_counts = stored["options"], stored["rows"], stored["row_counts"]
        self.numbers = {word: number for number, word in enumerate(stored["words"])}
        # The characters that `pipe` takes for letters or digits. Python has another list.
        ranges = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in read_json("data/letters.json"))
        self.word, self.letter = re.compile(f"[{ranges}]{{2,}}"), re.compile(f"[{ranges}]")

    def words(self, text):
        options, words = self.options, []
        for word in self.word.findall(text):
            if options.get("numbers", "keep") != "keep" and all(unicodedata.category(c)[0] == "N" for c in word):
                if options["numbers"] == "drop":
                    continue
                word = "0"
            elif options["lowercase"]:
                word = word.lower()
            if word not in options.get("stop_words", []):
                words.append(word)
        return words

    def units(self, text):
        words, (least, most) = self.words(text), self.options.get("ngrams", [1, 1])
        for size in range(least, most + 1):
            if self.options.get("unit") == "characters":
                padded = [f" {word} " for word in words]
                yield from (word[at : at + size] for word in padded for at in range(len(word) - size + 1))
            else:
                yield from (" ".join(words[at : at + size]) for at in range(len(words) - size + 1))

    def row(self, text):
        """Returns the features of a text, or a sentence that says why they are unknown."""
        new = sorted({c for c in self.letter.findall(text) if unicodedata.category(c) == "Cn"})
        if new:
            return f"this version of Python does not know the letter U+{ord(new[0]):04X}; use a newer one, or `pipe predict`"
        options, row = self.options, {}
        counts = Counter(self.numbers.get(unit) for unit in self.units(text))
        for feature, count in counts.items():
            if feature is not None:
                idf = math.log((1 + self.rows) / (1 + self.row_counts[feature])) + 1
                row[feature] = (1 + math.log(count) if options["sublinear_tf"] else count) * (idf if options["idf"] else 1)
        norm = math.sqrt(sum(value * value for value in row.values())) if options["l2"] and row else 1
        return {feature: value / norm for feature, value in row.items()}


# Numbers


def read_sparse(text, format, base):
    lines = text.split("\n")
    if lines and not lines[-1].strip():
        lines.pop()
    rows, announced = [], None
    if format == "XMC":
        announced = int(lines.pop(0).split()[0])
    for line in lines:
        if not line.startswith("#"):
            entries = [word.split(":") for word in line.split("#")[0].split() if ":" in word]
            row = {int(feature) - base: float(value) for feature, value in entries}
            if len(row) < len(entries):
                fail(f"row {len(rows)} has a feature twice")
            rows.append(row)
    if announced not in (None, len(rows)):
        fail(f"there are {len(rows)} rows, but the first line announces {announced}")
    return rows


def arff_values(text):
    """Yields the values of a list: blanks around them are ignored, and quotes may be around them."""
    at = 0
    while at <= len(text):
        at += len(text[at:]) - len(text[at:].lstrip())
        value, quote = [], text[at : at + 1]
        if quote in ("'", '"') and quote:
            at += 1
            while text[at : at + 1] != quote:
                if at >= len(text):
                    fail("a quote is not closed")
                if text[at] == "\\":
                    at += 1
                    value.append({"n": "\n", "t": "\t", "r": "\r"}.get(text[at : at + 1], text[at : at + 1]))
                else:
                    value.append(text[at])
                at += 1
            value = "".join(value)
            end = text.find(",", at)
            at = len(text) + 1 if end < 0 else end + 1
        else:
            end = text.find(",", at)
            end = len(text) if end < 0 else end
            value, at = text[at:end].rstrip(), end + 1
        yield value


def arff_attribute(line):
    line = line.split(None, 1)[1].strip() if len(line.split(None, 1)) > 1 else ""
    quoted = re.match(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""", line)
    if quoted:
        name, rest = next(arff_values(quoted[0])), line[quoted.end() :]
    else:
        name, rest = re.match(r"(\S*)(.*)", line, re.S).groups()
        if not rest.strip() and "{" in name:
            name, rest = name.split("{", 1)[0], "{" + name.split("{", 1)[1]
    rest = rest.strip()
    return name, list(arff_values(rest[1:-1])) if rest.startswith("{") else None


def is_number(text):
    try:
        return math.isfinite(float(text)) and "_" not in text
    except ValueError:
        return False


def read_arff(text, features):
    """Returns the rows of an ARFF file, whose attributes are matched by name. `features` has the numbers of the features."""
    known = read_json("data/nominal_values.json", {})
    lines, attributes = iter(text.split("\n")), []
    for line in lines:
        word = (line.split() or [""])[0].lower()
        if word == "@attribute":
            attributes.append(arff_attribute(line.strip()))
        if word == "@data":
            break
    present = {name for name, _ in attributes}
    for feature in features:
        if not present & {feature, *(feature[: sign.start()] for sign in re.finditer("=", feature))}:
            fail(f"the file has no attribute for the feature `{feature}`, which the model needs")
    unknown = Counter()

    def store(row, position, value):
        name, declared = attributes[position]
        if value == "?" or (name not in features and not is_nominal[position]):
            return
        if declared is not None and value not in declared:
            fail(f"`{value}` is not a declared value of the attribute `{name}`")
        if not is_nominal[position]:
            if not is_number(value):
                fail(f"`{value}`, a value of the attribute `{name}`, is not a number that the model knows")
            row[features[name]] = float(value)
        elif name in features:
            values = known.get(name, [])
            place = values.index(value) if value in values else int(value) if value.isdigit() else len(values)
            if place < len(values):
                row[features[name]] = float(place)
            else:
                unknown[name, value] += 1
        elif f"{name}={value}" in features:
            row[features[f"{name}={value}"]] = 1.0
        elif value not in known.get(name, []):
            unknown[name, value] += 1

    prefixes = {feature[: sign.start()] for feature in features for sign in re.finditer("=", feature)}
    is_nominal = []
    for name, declared in attributes:
        is_nominal.append(declared is not None and (name in known or (name not in features and name in prefixes)))
        if declared is None and name in prefixes and name not in features:
            fail(f"the attribute `{name}` is not nominal, but it is in the training file of the model")
    rows = []
    for line in lines:
        line = line.strip()
        if not line or line.startswith("%"):
            continue
        row = {}
        if line.startswith("{"):
            if not line.endswith("}"):
                fail(f"row {len(rows)} does not end with a brace")
            given = {}
            for entry in re.finditer(r"""\s*(\d+)\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^,]*)""", line[1:-1]):
                given[int(entry[1])] = next(arff_values(entry[2]))
            for position, (_, declared) in enumerate(attributes):
                if position in given or is_nominal[position]:
                    store(row, position, given.get(position, (declared or ["0"])[0]))
        else:
            values = list(arff_values(line))
            if len(values) != len(attributes):
                fail(f"row {len(rows)} has {len(values)} values for {len(attributes)} attributes")
            for position, value in enumerate(values):
                store(row, position, value)
        rows.append(row)
    for (name, value), count in unknown.items():
        print(f"predict.py: warning: the model does not know the value `{value}` of `{name}` ({count} rows)", file=sys.stderr)
    return rows


def read_rows(path, base, meta):
    """Returns the rows of a file with their features as in the training data, the ids of the rows, and the rows that are refused."""
    data = read_file(path)
    format = format_of(data) if data else fail("the file is empty")
    texts, ids, errors, transform = (HERE / "data/vocabulary.json").exists(), None, {}, read_json("data/transform.json")
    width = meta["features_before"]
    if format == "safetensors":
        refuse("safetensors are not supported")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        fail("the file is UTF-16 text; convert it to UTF-8")
    if texts != (format in ("CSV", "JSON lines")):
        fail(f"the file is {format}, but the model needs {'texts: CSV or JSON lines' if texts else 'numbers'}")
    if format == "NumPy":
        features = np.load(io.BytesIO(data), allow_pickle=False)
        if features.ndim != 2 or features.shape[1] != width:
            fail(f"the array has the shape {features.shape}, but the model needs rows of {width} numbers")
        if not np.isfinite(single(features)).all():
            fail("a number of the array is not finite")
        features = csr_matrix(single(features))
    else:
        if texts:
            vocabulary = Vocabulary()
            read, ids = read_texts(data, format)
            rows = [vocabulary.row(text) for text in read]
            errors = {number: row for number, row in enumerate(rows) if isinstance(row, str)}
            rows = [{} if number in errors else row for number, row in enumerate(rows)]
        elif format == "ARFF":
            names = read_names("feature_names.jsonl")
            if names is None:
                fail("ARFF attributes are matched by name, but the features of the model have no names")
            numbers = transform["kept"] or range(width)
            rows = read_arff(data.decode("utf-8-sig", "replace"), dict(zip(names, numbers)))
        else:
            report = meta["report"]
            if base is None:
                base = 0 if format == "XMC" else report["feature_base"]["first"] if report["format"] == "libsvm" else None
            if base is None:
                fail("name the number of the first feature, `--feature-base 0` or `--feature-base 1`")
            rows = read_sparse(data.decode("utf-8-sig"), format, base)
        indptr = np.cumsum([0] + [len(row) for row in rows])
        indices = [feature for row in rows for feature in row]
        if indices and not 0 <= min(indices) <= max(indices) < width:
            fail(f"a feature is not among the {width} features of the model")
        values = single([value for row in rows for value in row.values()])
        features = csr_matrix((values, indices, indptr), (len(rows), width))
    if not features.shape[0]:
        fail("the file contains no rows")
    if transform.get("log"):
        features.data = single(np.copysign(np.log1p(np.abs(features.data)), features.data))
    if transform["idf"] is not None:
        features = csr_matrix(features.multiply(np.array(transform["idf"])))
    if transform.get("standardise"):
        mean, scale = (np.array(transform["standardise"][part]) for part in ("mean", "scale"))
        features = csr_matrix((features.toarray() - mean) * scale)
    if transform["kept"] is not None:
        features = features[:, transform["kept"]]
    if transform.get("clip"):
        features.data = np.clip(features.data, -transform["clip"], transform["clip"])
    return unit_rows(features) if transform["l2"] else features, ids, errors


# Models


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


def extra_trees(rows, directory, config):
    splits, leaves, labels = (read_matrix(f"{directory}/{name}.csr") for name in ("splits", "leaves", "labels"))
    inner = np.diff(splits.indptr) > 0
    # Nodes are in preorder. The second child of a node follows the subtree of the first one.
    second, roots, open_nodes = np.zeros(len(inner), int), [0], []
    for node, is_inner in enumerate(inner):
        if is_inner:
            open_nodes.append(node)
        elif open_nodes:
            second[open_nodes.pop()] = node + 1
        else:
            roots.append(node + 1)
    feature, cut = np.zeros(len(inner), int), np.zeros(len(inner))
    feature[inner], cut[inner] = splits.indices, splits.data
    leaf_number = np.cumsum(~inner) - 1
    scores = []
    for row in rows:
        values = single(row.toarray().ravel())
        at = np.array(roots[:-1])
        while inner[at].any():
            below = np.where(values[feature[at]] > cut[at], second[at], at + 1)
            at = np.where(inner[at], below, at)
        weights = csr_matrix(leaves[leaf_number[at]].sum(axis=0)) / len(at)
        scores.append(weights @ labels)
    return vstack(scores).toarray()


KINDS = {"ridge": ridge, "kernel_ridge": kernel_ridge, "block_kernel_ridge": kernel_ridge,
         "neighbours": neighbours, "label_tree": label_tree, "extra_trees": extra_trees}  # fmt: skip


def fused(fusion, tables):
    idf = np.log(fusion["rows"] / np.maximum(np.array(fusion["counts"], float), 0.5))
    columns = [np.log(np.maximum(s, 0) + t["floor"]) for t, s in zip(fusion["terms"], tables)] + [idf]
    weights = [t["weight"] for t in fusion["terms"]] + [fusion["idf_weight"]]
    scores = sum(w * c for w, c in zip(weights, columns)) + fusion["constant"]
    products = (a * b for at, a in enumerate(columns) for b in columns[at:])
    return scores + sum(w * p for w, p in zip(fusion.get("products", []), products))


def best(scores, count):
    """Returns the best labels of a row; of equal ones the first."""
    return np.argsort(-scores, kind="stable")[:count]


def main():
    about, details = __doc__.split("\n\n", 1)
    parser = argparse.ArgumentParser(prog="predict.py", description=about, epilog=details)
    parser.add_argument("rows", metavar="ROWS", help="a file of rows; `-` is standard input")
    parser.add_argument("--feature-base", type=int, choices=(0, 1), help="the number of the first feature in LIBSVM text")
    args = parser.parse_args()
    meta, model = read_json("data/meta.json"), read_json("model.json")
    for part in model["parts"]:
        if part["model"]["kind"] not in KINDS:
            refuse(f"models of the kind `{part['model']['kind']}` are not supported")
    try:
        rows, ids, errors = read_rows(args.rows, args.feature_base, meta)
    except OSError as error:
        fail(f"cannot read {args.rows}: {error.strerror or error}")
    except (ValueError, csv.Error) as error:
        fail(f"cannot read {args.rows}: {error}")
    tables, candidates = [], None
    for part in model["parts"]:
        scores = np.asarray(KINDS[part["model"]["kind"]](rows, part["directory"], part["model"]))
        if part["keep"] is not None:
            kept = np.zeros(scores.shape, bool)
            for own, row in zip(kept, scores):
                own[best(row, part["keep"])] = True
            kept &= scores > 0
            scores = np.where(kept, scores, part["rest"])
            candidates = kept if candidates is None else candidates | kept
        tables.append(scores)
    scores, fusion, cut = tables[0], model["fusion"], 0.5
    if model.get("first_fusion"):
        probabilities = 1 / (1 + np.exp(-fused(model["first_fusion"], tables)))
        probabilities[probabilities < 1e-3] = 0
        if candidates is not None:
            probabilities[~candidates] = 0
        weights = read_matrix("label_ridge/weights.dense")
        tables.append(probabilities @ weights[:-1] + 0.3 * weights[-1])
    if fusion:
        scores, cut = fused(fusion, tables), 0.0
    if candidates is not None:
        scores = np.where(candidates, scores, -np.inf)
    decision = (model["cuts"] or {}).get("decision", {"kind": "per_label", "cuts": [cut] * scores.shape[1]})
    if decision["kind"] != "per_label":
        refuse(f"the rule `{decision['kind']}` is not supported")
    cuts = np.array([math.inf if cut is None else cut for cut in decision["cuts"]])
    names = read_names("label_names.jsonl")
    for number, row in enumerate(scores):
        line = {**({"id": ids[number]} if ids else {}), "row": number}
        if number in errors:
            print(json.dumps({**line, "error": errors[number]}, ensure_ascii=False))
            continue
        labels = [int(label) for label in np.flatnonzero(row > cuts)]
        named = [{"label": label, **({"name": names[label]} if names else {}), "score": float(row[label])} for label in labels]
        print(json.dumps({**line, "labels": named}, ensure_ascii=False))
    return 1 if errors else 0


try:
    status = main()
    sys.stdout.flush()
    sys.exit(status)
except BrokenPipeError:
    # The reader, such as `head`, wants no more. Python would complain when it closes the output.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
