"""Writes packages.csv.gz, the texts of pipelines/embeddings.yaml: apt-cache dumpavail | python3 packages.py

The texts are names and short descriptions of Debian packages, and the labels are their tags. 5,000 of the packages with three or
more tags are drawn; packages with fewer are mostly libraries with the one tag that says so. The committed file was made on Debian
12 (bookworm, main, amd64). Another day's package list gives another file.
"""

import csv
import gzip
import io
import random
import sys


def packages(stream):
    """Yields the name, the description and the tags of each package that has tags."""
    fields, field = {}, None
    for line in [*stream, "\n"]:
        if line == "\n":
            if "Tag" in fields:
                yield fields["Package"], fields["Description"], fields["Tag"].replace(" ", "").split(",")
            fields, field = {}, None
        elif line.startswith(" "):
            fields[field] += line.strip()
        else:
            field, _, value = line.partition(":")
            fields[field] = value.strip()


def main():
    by_name = {name: (description, tags) for name, description, tags in packages(sys.stdin)}
    drawn = [name for name in sorted(by_name) if len(by_name[name][1]) >= 3]
    random.Random(0).shuffle(drawn)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["text", "labels"])
    for name in drawn[:5000]:
        description, tags = by_name[name]
        writer.writerow([f"{name}: {description}", ";".join(tags)])
    with open("packages.csv.gz", "wb") as file:
        file.write(gzip.compress(text.getvalue().encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
