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
import time

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../pipelines/baselines"))
from baseline import UNLISTED, cross_fitted, cut_for_all, cut_per_label, f1, logistic, napkinxc_plt, read_csr


def quality(predicted, y):
    tp, p, a = (predicted & y).sum(0), predicted.sum(0), y.sum(0)
    return float(f1(tp, p, a).mean()), float(2 * tp.sum() / max(p.sum() + a.sum(), 1))


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
