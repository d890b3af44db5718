"""Writes the rows of citeulike-t as the other tools have run them: python citeulike.py RAW-DIRECTORY OUTPUT-DIRECTORY

The tags that at least three rows have, and the first 80 % of `numpy.random.RandomState(0).permutation` for training. Writes
train.svm and test.svm, and prints the numbers of features and labels."""

import sys
from pathlib import Path

import numpy as np

raw, output = map(Path, sys.argv[1:])
rows = [line.split()[1:] for line in (raw / "mult.dat").read_text().splitlines()]
items = [sorted({int(item) for item in line.split()[1:]}) for line in (raw / "tag-item.dat").read_text().splitlines()]
labels = [[] for _ in rows]
kept = [tag for tag in items if len(tag) >= 3]
for number, tag in enumerate(kept):
    for item in tag:
        labels[item].append(number)
features = 1 + max(int(pair.split(":")[0]) for row in rows for pair in row)
order = np.random.RandomState(0).permutation(len(rows))
cut = int(0.8 * len(rows))
for part, chosen in (("train", order[:cut]), ("test", order[cut:])):
    with open(output / f"{part}.svm", "w") as file:
        for row in chosen:
            pairs = " ".join(sorted(rows[row], key=lambda pair: int(pair.split(":")[0])))
            file.write(f"{','.join(map(str, labels[row]))} {pairs}\n")
print(features, len(kept))
