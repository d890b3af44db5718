#!/usr/bin/env python3
"""Makes the font of the figures, a subset of Liberation Sans 2.1.5: scripts/figure-font.py LiberationSans-Regular.ttf OUT.ttf

Needs fonttools. The result is a modified version under the SIL Open Font License, which reserves
the name of the original, so it gets another name. It keeps the scripts that are written from left
to right and need no shaping; hinting, kerning and alternates are removed.
"""

import sys

from fontTools import subset
from fontTools.ttLib import TTFont

NAME = "Pipe Sans"
KEPT = [
    (0x20, 0x7E),  # Basic Latin
    (0xA0, 0x17F),  # Latin-1 Supplement, Latin Extended-A
    (0x218, 0x21B),
    (0x391, 0x3C9),  # Greek
    (0x400, 0x45F),  # Cyrillic
    (0x2010, 0x2015),
    (0x2018, 0x2022),
    (0x2026, 0x2026),
    (0x2030, 0x2030),
    (0x2032, 0x2033),
    (0x2039, 0x203A),
    (0x2074, 0x2079),
    (0x2080, 0x2089),
    (0x20AC, 0x20AC),
    (0x2122, 0x2122),
    (0x2190, 0x2193),
    (0x2202, 0x2202),
    (0x2206, 0x2206),
    (0x220F, 0x220F),
    (0x2211, 0x2212),
    (0x221A, 0x221A),
    (0x221E, 0x221E),
    (0x2248, 0x2248),
    (0x2260, 0x2260),
    (0x2264, 0x2265),
]

source, target = sys.argv[1:]
font = TTFont(source, recalcTimestamp=False)
options = subset.Options(hinting=False, layout_features=[], notdef_outline=True, name_IDs=[0, 1, 2, 4, 5, 6, 13, 14])
options.drop_tables += ["GSUB", "GPOS", "GDEF", "kern", "FFTM", "gasp", "DSIG"]
cutter = subset.Subsetter(options)
cutter.populate(unicodes=[code for low, high in KEPT for code in range(low, high + 1)])
cutter.subset(font)
for record in font["name"].names:
    if record.nameID in (1, 4):
        record.string = NAME
    elif record.nameID == 6:
        record.string = NAME.replace(" ", "")
font.save(target)
