"""Reads results as JSON lines from standard input and prints a table, then `name value unit` lines.

`table.py ours RESULTS SECONDS` prints the JSON line of `pipe`; peers.py prints those of the alternatives; `table.py mark SET`
adds the name of the data set to each line."""

import json
import sys

HEADS = ("data", "", "macro-F1", "micro-F1", "seconds", "pipe's macro-F1 minus this")


def ours(directory, seconds):
    values = {}
    for objective in ("macro", "micro"):
        with open(f"{directory}/{objective}.json") as file:
            values[f"{objective}_f1"] = json.load(file)["evaluation"]["values"][f"{objective}_f1"]
    print(json.dumps({"name": "pipe", **values, "seconds": float(seconds)}))


def table(found):
    base = {line["set"]: line["macro_f1"] for line in found if line["name"] == "pipe"}
    rows = [HEADS]
    for line in found:
        ahead = base[line["set"]] - line["macro_f1"] if line["name"] != "pipe" else None
        figures = [f"{line['macro_f1']:.4f}", f"{line['micro_f1']:.4f}", f"{line['seconds']:.1f}"]
        rows.append((line["set"], line["name"], *figures, "" if ahead is None else f"{ahead:+.4f}"))
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADS))]
    for row in rows:
        words = [word.ljust(width) if place < 2 else word.rjust(width) for place, (word, width) in enumerate(zip(row, widths))]
        print("  ".join(words).rstrip())
    print()
    for line in found:
        for figure, unit in (("macro_f1", "F1"), ("micro_f1", "F1"), ("seconds", "s")):
            print(f"{line['set']}.{line['name']}.{figure} {line[figure]:.4f} {unit}")


match sys.argv[1:]:
    case ["ours", directory, seconds]:
        ours(directory, seconds)
    case ["mark", data_set]:
        for line in sys.stdin:
            print(json.dumps({"set": data_set, **json.loads(line)}), flush=True)
    case _:
        table([json.loads(line) for line in sys.stdin])
