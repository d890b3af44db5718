"""Writes results as `name value unit` lines: `line.py ours SET RESULTS SECONDS`, or `line.py peers SET` with JSON lines on
standard input."""

import json
import sys


def show(data_set, name, macro, micro, seconds):
    for figure, value, unit in (("macro_f1", macro, "F1"), ("micro_f1", micro, "F1"), ("wall", seconds, "s")):
        print(f"{data_set}.{name}.{figure} {value:.4f} {unit}", flush=True)


def value(directory, objective):
    record = json.load(open(f"{directory}/{objective}.json"))
    return record["evaluation"]["values"][f"{objective}_f1"]


if sys.argv[1] == "ours":
    directory = sys.argv[3]
    show(sys.argv[2], "pipe", value(directory, "macro"), value(directory, "micro"), float(sys.argv[4]))
else:
    for line in sys.stdin:
        found = json.loads(line)
        show(sys.argv[2], found["name"], found["macro_f1"], found["micro_f1"], found["seconds"])
