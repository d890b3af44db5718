"""Runs an alternative to the recipe on the same rows: python peers.py DATASET-DIRECTORY NAME

DATASET-DIRECTORY is a `dataset` artifact of `pipe` (docs/data.md). Every alternative is treated the same way: it scores
the training rows by 3-fold cross-fitting, and keeps the best 100 labels of each row; these scores determine a cut per label for
macro-F1 (SCut) and one cut for all labels for micro-F1; then it is trained on all training rows and evaluated once on the test
rows. ML-kNN keeps its own rule. Prints one JSON object: name, macro_f1, micro_f1, p_at_1, p_at_3, p_at_5, seconds (wall),
cpu_seconds and megabytes (peak). Everything that depends on the number of labels is sparse, except in `logistic` and `ml-knn`.
"""

import json
import os
import resource
import sys
import tempfile
import time

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../pipelines/baselines"))
from baseline import FOLDS, UNLISTED, f1, logistic, read_csr

KEPT = 100


def quality(predicted, y):
    tp = np.asarray(predicted.multiply(y).sum(0)).ravel()
    p, a = (np.asarray(part.sum(0)).ravel() for part in (predicted, y))
    return float(f1(tp, p, a).mean()), float(2 * tp.sum() / max(p.sum() + a.sum(), 1))


def precision_at(scores, y):
    """Returns P@1, P@3 and P@5 of sparse scores."""
    hits = np.zeros(5)
    for row in range(y.shape[0]):
        span = slice(scores.indptr[row], scores.indptr[row + 1])
        best = scores.indices[span][np.argsort(-scores.data[span], kind="stable")[:5]]
        hits[: len(best)] += np.isin(best, y.indices[y.indptr[row] : y.indptr[row + 1]])
    return {f"p_at_{k}": float(hits[:k].sum() / k / y.shape[0]) for k in (1, 3, 5)}


def best_cut(scores, hits, positives):
    """Returns the cut between two scores with the best F1, and infinity if there is none."""
    order = np.argsort(-scores, kind="stable")
    ranked, found = scores[order], np.cumsum(hits[order])
    if positives == 0 or len(found) == 0 or found[-1] == 0:
        return np.inf
    values = f1(found, np.arange(1, len(found) + 1), positives)
    values[:-1][ranked[:-1] == ranked[1:]] = 0
    best = int(np.argmax(values))
    below = ranked[best + 1] if best + 1 < len(ranked) else ranked[best] - 1
    return (ranked[best] + below) / 2


def marked(scores, y):
    """Returns for each stored score whether its label is true."""
    labels = y.shape[1]
    at = np.repeat(np.arange(scores.shape[0], dtype=np.int64), np.diff(scores.indptr)) * labels + scores.indices
    true = np.repeat(np.arange(y.shape[0], dtype=np.int64), np.diff(y.indptr)) * labels + y.indices
    return np.isin(at, true)


def cut_per_label(scores, y):
    hits, by_label = marked(scores, y), np.argsort(scores.indices, kind="stable")
    ends = np.cumsum(np.bincount(scores.indices, minlength=y.shape[1]))
    positives = np.asarray(y.sum(0)).ravel()
    cuts = np.full(y.shape[1], np.inf)
    for label, end in enumerate(ends):
        of_label = by_label[ends[label - 1] if label else 0 : end]
        cuts[label] = best_cut(scores.data[of_label], hits[of_label], positives[label])
    return cuts


def above(scores, cuts):
    chosen = scores.copy()
    chosen.data = (scores.data > np.broadcast_to(cuts, scores.shape[1])[scores.indices]).astype(np.float64)
    chosen.eliminate_zeros()
    return chosen


def best_of(dense):
    """Returns the best labels of rows of scores."""
    kept = min(KEPT, dense.shape[1])
    labels = np.sort(np.argpartition(-dense, kept - 1, axis=1)[:, :kept], axis=1)
    rows = np.repeat(np.arange(len(dense)), kept)
    values = dense[rows, labels.ravel()]
    listed = values > UNLISTED
    return sp.csr_matrix((values[listed], (rows[listed], labels.ravel()[listed])), shape=dense.shape)


def dense_logistic(x, y):
    score = logistic(x, y.toarray() > 0)
    return lambda rows: best_of(score(rows))


def pecos_xlinear(x, y):
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    x, labels = sp.csr_matrix(x, dtype=np.float32), sp.csr_matrix(y, dtype=np.float32)
    chain = Indexer.gen(LabelEmbeddingFactory.create(labels, x, method="pifa"))
    model = XLinearModel.train(x, labels, C=chain)
    top = min(y.shape[1], KEPT)
    return lambda rows: model.predict(sp.csr_matrix(rows, dtype=np.float32), beam_size=20, only_topk=top).tocsr()


def napkinxc_plt(x, y):
    from napkinxc.models import PLT

    directory = tempfile.TemporaryDirectory()
    model = PLT(directory.name, verbose=False, seed=0, threads=int(os.environ.get("PIPE_THREADS", os.cpu_count())))
    model.fit(x, [y.indices[y.indptr[row] : y.indptr[row + 1]].tolist() for row in range(y.shape[0])])
    top = min(y.shape[1], KEPT)

    def score(rows, directory=directory):
        found = [sorted(pairs) for pairs in model.predict_proba(rows, top_k=top)]
        ends = np.cumsum([0] + [len(pairs) for pairs in found])
        labels = [label for pairs in found for label, _ in pairs]
        values = [value for pairs in found for _, value in pairs]
        return sp.csr_matrix((values, labels, ends), shape=(rows.shape[0], y.shape[1]))

    return score


def cross_fitted(fit, x, y, test):
    """Returns the scores of the training rows, each from a model fitted without that row, and those of the test rows."""
    fold = np.random.RandomState(0).permutation(x.shape[0]) % FOLDS
    parts = [fit(x[fold != part], y[fold != part])(x[fold == part]) for part in range(FOLDS)]
    order = np.argsort(np.concatenate([np.flatnonzero(fold == part) for part in range(FOLDS)]))
    return sp.vstack(parts).tocsr()[order], fit(x, y)(test)


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


PEERS = {"logistic-scut": dense_logistic, "napkinxc-plt": napkinxc_plt, "pecos-xlinear": pecos_xlinear, "ml-knn": None}


def cpu_seconds():
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def main(directory, name):
    train, test = (os.path.join(directory, part) for part in ("train", "test"))
    x, x_test = read_csr(os.path.join(train, "features.csr")), read_csr(os.path.join(test, "features.csr"))
    y, y_test = (read_csr(os.path.join(part, "labels.csr")) for part in (train, test))
    wall, cpu, fit = time.perf_counter(), cpu_seconds(), PEERS[name]
    if fit is None:
        macro = micro = sp.csr_matrix(ml_knn(x, y.toarray() > 0, x_test), dtype=np.float64)
        precision = {}
    else:
        held_out, scores = cross_fitted(fit, x, y, x_test)
        macro, micro = above(scores, cut_per_label(held_out, y)), above(
            scores, best_cut(held_out.data, marked(held_out, y), y.nnz)
        )
        precision = precision_at(scores, y_test)
    seconds, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    found = {"name": name, "macro_f1": quality(macro, y_test)[0], "micro_f1": quality(micro, y_test)[1], **precision}
    memory = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    print(json.dumps(found | {"seconds": seconds, "cpu_seconds": cpu, "megabytes": memory}), flush=True)


main(*sys.argv[1:])
