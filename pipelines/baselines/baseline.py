"""Predicts with another library: python baseline.py METHOD DATASET-DIRECTORY REQUIREMENTS MACRO.npz MICRO.npz

DATASET-DIRECTORY is a `dataset` artifact of `pipe` (docs/data.md). The method scores the training rows by 3-fold
cross-fitting; these scores determine a cut per label for macro-F1 (SCutFBR) and one cut for all labels for micro-F1. Then it is
trained on all training rows and scores the test rows once. No label of a test row is read. Each output has the arrays `row`,
`label`, `score` and `predicted`, which `evaluate` reads (docs/evaluation.md).
"""

import importlib.metadata
import os
import sys
import tempfile

import numpy as np
import scipy.sparse as sp

FOLDS = 3
# The score of a label for which a method gives no score.
UNLISTED = -1e30
# A label whose best F1 on the training rows is below this is cut at its highest score, as Yang 2001 suggests.
LEAST_F1 = 0.1


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


def cut_per_label(scores, y, least_f1=0.0):
    """Returns for each label the cut between two scores that has the best F1 (SCut). If even that F1 is below `least_f1`,
    the cut is the highest score (SCutFBR.1 of Yang 2001): the cut of a rare label would otherwise predict it for most rows."""
    cuts = np.full(y.shape[1], np.inf)
    for label in range(y.shape[1]):
        order = np.argsort(-scores[:, label], kind="stable")
        ranked, hits = scores[order, label], np.cumsum(y[order, label])
        if hits[-1] == 0:
            continue
        values = f1(hits, np.arange(1, len(hits) + 1), hits[-1])
        values[:-1][ranked[:-1] == ranked[1:]] = 0
        best = int(np.argmax(values))
        if values[best] < least_f1:
            cuts[label] = ranked[0]
            continue
        below = ranked[best + 1] if best + 1 < len(ranked) else ranked[best] - 1
        cuts[label] = (ranked[best] + below) / 2
    return cuts


def cut_for_all(scores, y):
    flat = scores.ravel()
    order = np.argsort(-flat, kind="stable")
    hits = np.cumsum(y.ravel()[order])
    best = int(np.argmax(f1(hits, np.arange(1, len(hits) + 1), hits[-1])))
    return (flat[order[best]] + flat[order[min(best + 1, len(flat) - 1)]]) / 2


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
            models.append((label, LogisticRegression(solver="liblinear", C=10.0, random_state=0).fit(x, target)))

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
    model = PLT(directory, verbose=False, seed=0, threads=int(os.environ.get("PIPE_THREADS", os.cpu_count())))
    model.fit(x, [[int(label) for label in np.flatnonzero(row)] for row in y])
    top = min(y.shape[1], 100)
    return lambda rows: listed(model.predict_proba(rows, top_k=top), rows.shape[0], y.shape[1])


METHODS = {"logistic": logistic, "napkinxc": napkinxc_plt}


def check_versions(requirements):
    """Ends the program unless the listed packages are installed: other versions may give other decisions."""
    for line in open(requirements):
        name, wanted = line.strip().split("==")
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "no version"
        if found != wanted:
            sys.exit(f"{name} {wanted} is needed, but {found} is installed: pipelines/baselines.yaml says how to install it")


def read_part(directory, part, name):
    return read_csr(os.path.join(directory, part, f"{name}.csr"))


def save(path, scores, cuts):
    row, label = np.nonzero(scores > UNLISTED)
    score = scores[row, label]
    np.savez(path, row=row, label=label, score=score, predicted=(scores > cuts)[row, label])


def main(method, directory, requirements, macro, micro):
    check_versions(requirements)
    x, y = read_part(directory, "train", "features"), read_part(directory, "train", "labels").toarray() > 0
    held_out, scores = cross_fitted(METHODS[method], x, y, read_part(directory, "test", "features"))
    save(macro, scores, cut_per_label(held_out, y, LEAST_F1))
    save(micro, scores, cut_for_all(held_out, y))


if __name__ == "__main__":
    main(*sys.argv[1:])
