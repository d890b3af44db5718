"""Runs the alternatives to the recipe on the same rows: python peers.py DATASET-DIRECTORY [NAME...]

DATASET-DIRECTORY is a `dataset` artifact of `pipe` (docs/data.md). Every alternative is treated the same way: it scores
the training rows by 3-fold cross-fitting; these scores determine a cut per label for macro-F1 (SCut) and one cut for all
labels for micro-F1; then it is trained on all training rows and evaluated once on the test rows. ML-kNN keeps its own rule.
Prints one JSON object per alternative: name, macro_f1, micro_f1, seconds (wall), cpu_seconds.
"""

import json
import os
import resource
import sys
import tempfile
import time

import numpy as np
import scipy.sparse as sp

FOLDS = 3
# The score of a label for which an alternative gives no score.
UNLISTED = -1e30


def read_csr(path):
    raw = np.fromfile(path, dtype=np.uint8)
    assert raw[:8].tobytes() == b"PIPE-CSR", path
    valued = raw[16:20].view("<u4")[0]
    rows, cols, entries = (int(raw[at : at + 8].view("<u8")[0]) for at in (24, 32, 40))
    align = lambda at: (at + 63) // 64 * 64
    indices = raw[128 : 128 + 4 * entries].view("<u4").astype(np.int32)
    values_at = align(128 + 4 * entries)
    values = raw[values_at : values_at + 4 * entries].view("<f4") if valued else np.ones(entries, np.float32)
    indptr_at = align(values_at + (4 * entries if valued else 0))
    indptr = raw[indptr_at : indptr_at + 8 * (rows + 1)].view("<u8").astype(np.int64)
    return sp.csr_matrix((values, indices, indptr), shape=(rows, cols))


def f1(tp, predicted, actual):
    return np.where(tp > 0, 2 * tp / np.maximum(predicted + actual, 1), 0.0)


def cut_per_label(scores, y):
    """Returns for each label the cut between two scores that has the best F1 (SCut)."""
    cuts = np.full(y.shape[1], np.inf)
    for label in range(y.shape[1]):
        order = np.argsort(-scores[:, label], kind="stable")
        ranked, hits = scores[order, label], np.cumsum(y[order, label])
        if hits[-1] == 0:
            continue
        values = f1(hits, np.arange(1, len(hits) + 1), hits[-1])
        values[:-1][ranked[:-1] == ranked[1:]] = 0
        best = int(np.argmax(values))
        below = ranked[best + 1] if best + 1 < len(ranked) else ranked[best] - 1
        cuts[label] = (ranked[best] + below) / 2
    return cuts


def cut_for_all(scores, y):
    flat = scores.ravel()
    order = np.argsort(-flat, kind="stable")
    hits = np.cumsum(y.ravel()[order])
    best = int(np.argmax(f1(hits, np.arange(1, len(hits) + 1), hits[-1])))
    return (flat[order[best]] + flat[order[min(best + 1, len(flat) - 1)]]) / 2


def quality(predicted, y):
    tp, p, a = (predicted & y).sum(0), predicted.sum(0), y.sum(0)
    return float(f1(tp, p, a).mean()), float(2 * tp.sum() / max(p.sum() + a.sum(), 1))


def cross_fitted(fit, x, y, test):
    """Returns the scores of the training rows, each from a model fitted without that row, and those of the test rows."""
    fold = np.random.RandomState(0).permutation(x.shape[0]) % FOLDS
    held_out = np.full(y.shape, UNLISTED, np.float32)
    for part in range(FOLDS):
        held_out[fold == part] = fit(x[fold != part], y[fold != part])(x[fold == part])
    return held_out, fit(x, y)(test)


def logistic(x, y):
    from sklearn.linear_model import LogisticRegression

    models = []
    for label in range(y.shape[1]):
        target = y[:, label]
        if 0 < target.sum() < len(target):
            models.append((label, LogisticRegression(solver="liblinear", C=10.0).fit(x, target)))

    def score(rows):
        scores = np.full((rows.shape[0], y.shape[1]), UNLISTED, np.float32)
        for label, model in models:
            scores[:, label] = model.decision_function(rows)
        return scores

    return score


def listed(pairs, rows, labels):
    scores = np.full((rows, labels), UNLISTED, np.float32)
    for row, found in enumerate(pairs):
        for label, score in found:
            scores[row, int(label)] = score
    return scores


def napkinxc_plt(x, y):
    from napkinxc.models import PLT

    directory = tempfile.mkdtemp()
    model = PLT(directory, verbose=False, seed=0, threads=os.cpu_count())
    model.fit(x, [[int(label) for label in np.flatnonzero(row)] for row in y])
    top = min(y.shape[1], 100)
    return lambda rows: listed(model.predict_proba(rows, top_k=top), rows.shape[0], y.shape[1])


def pecos_xlinear(x, y):
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    x, labels = sp.csr_matrix(x, dtype=np.float32), sp.csr_matrix(y, dtype=np.float32)
    chain = Indexer.gen(LabelEmbeddingFactory.create(labels, x, method="pifa"))
    model = XLinearModel.train(x, labels, C=chain)

    def score(rows):
        rows = sp.csr_matrix(rows, dtype=np.float32)
        found = model.predict(rows, beam_size=20, only_topk=min(y.shape[1], 100)).tocsr()
        scores = np.full((rows.shape[0], y.shape[1]), UNLISTED, np.float32)
        entries = found.tocoo()
        scores[entries.row, entries.col] = entries.data
        return scores

    return score


def ml_knn(x, y, test, k=10, smooth=1.0):
    """Predicts with ML-kNN (Zhang and Zhou 2007), with neighbours by cosine."""
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import normalize

    x, test = normalize(x), normalize(test)
    index = NearestNeighbors(n_neighbors=k + 1, metric="cosine", algorithm="brute").fit(x)
    own = index.kneighbors(x, return_distance=False)
    own = np.array([[j for j in row if j != i][:k] for i, row in enumerate(own)])
    near = y[own].sum(1)
    prior = (smooth + y.sum(0)) / (2 * smooth + len(y))
    with_label = np.stack([((near == c) & y).sum(0) for c in range(k + 1)])
    without = np.stack([((near == c) & ~y).sum(0) for c in range(k + 1)])
    with_label = (smooth + with_label) / (smooth * (k + 1) + with_label.sum(0))
    without = (smooth + without) / (smooth * (k + 1) + without.sum(0))
    votes = y[index.kneighbors(test, n_neighbors=k, return_distance=False)].sum(1)
    at = (votes, np.arange(y.shape[1])[None, :])
    return prior * with_label[at] > (1 - prior) * without[at]


def cpu_seconds():
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def main(directory, names):
    train, test = (os.path.join(directory, part) for part in ("train", "test"))
    x, x_test = read_csr(os.path.join(train, "features.csr")), read_csr(os.path.join(test, "features.csr"))
    y, y_test = (read_csr(os.path.join(part, "labels.csr")).toarray() > 0 for part in (train, test))
    peers = {"logistic-scut": logistic, "napkinxc-plt": napkinxc_plt, "pecos-xlinear": pecos_xlinear, "ml-knn": None}
    for name, fit in peers.items():
        if names and name not in names:
            continue
        wall, cpu = time.perf_counter(), cpu_seconds()
        if fit is None:
            macro = micro = ml_knn(x, y, x_test)
        else:
            held_out, scores = cross_fitted(fit, x, y, x_test)
            macro, micro = scores > cut_per_label(held_out, y), scores > cut_for_all(held_out, y)
        seconds, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
        found = {"name": name, "macro_f1": quality(macro, y_test)[0], "micro_f1": quality(micro, y_test)[1]}
        print(json.dumps(found | {"seconds": seconds, "cpu_seconds": cpu}), flush=True)


main(sys.argv[1], sys.argv[2:])
