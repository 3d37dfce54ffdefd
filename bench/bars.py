#!/usr/bin/python3
"""What the layers' speed and memory should be, beside what `orthobatch bench --json` measured.

    orthobatch bench --json >bench.json      # on an otherwise idle machine
    /usr/bin/python3 bench/bars.py bench.json

Judged by medians, where every place of a bar was measured. Exit code 1 if a bar is not met, 2 if none was judged.
"""

import json
import math
import sys

CL, NCHW = "channels_last", "nchw"
PAPER = ["256x16x28x28", "256x64x14x14", "256x128x14x14", "256x32x32x32", "256x64x16x16", "256x128x16x16"]
ALL = PAPER + ["32x256x8x8", "64x512x7x7"]
WIDE = [shape for shape in PAPER if int(shape.split("x")[1]) >= 64]
NARROW = [shape for shape in PAPER if shape not in WIDE]
LARGEST = ["256x32x32x32", "256x128x16x16", "256x128x14x14", "256x64x16x16"]
DIGITS, STACK = ["mnist, batch 256", "svhn, batch 256"], ["stack, batch 64"]

NONE, TORCH, GEMM, COMPOSED = "no normalisation", "torch BatchNorm2d", "4.5 N^2 M at the GEMM rate", "composed ZCA"
ZCA, ROTATED = "ZCA(1e-5)", "ZCA(1e-5)->W->Gamma"
OUR_BN, UNFOLDED, FOLDED = "ours, BN", "ours, ZCA, not folded", "ours, ZCA, folded"
OTHERS = ["ZCA_corr(1e-5)", "ZCAE(1e-5)", "PCA(1e-5,1e12)"]
OTHERS += ["LDL(1e-5)", "PLDLP(1e-5)", "ZCAM(1e-5,c=1/100)"]
LAYERS = ["BN", ZCA, ROTATED, *OTHERS, "ZCA_spectral(1e-5,1e12)", "ZCAM_corr(1e-5,c=1/100)", "LDL_corr(1e-5)"]
LAYERS += ["IterNorm(1e-5,5)"]
INFERENCE = [f"{net}, batch {n}" for net in ("mnist", "svhn") for n in (1, 256)]


def places(shapes, *layouts):
    return [f"{shape} {layout}" for shape in shapes for layout in layouts]


def over(row, other, where, section="layers", part="total", other_part="total"):
    """A row over another at the same places: pairs of keys of what was measured."""
    return [((section, place, row, part), (section, place, other, other_part)) for place in where]


def step(row, other, nets, part="total"):
    return over(row, other, nets, "step", part, part)


def worst(ratios, at_most):
    return max(ratios) if at_most else min(ratios)


def mean(ratios, _):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


# What, at most or at least, the limit, the worst place or the geometric mean, the places.
BARS = [
    ("ZCA over its products at the GEMM rate, N >= 64", "<=", 1.35, worst, over(ZCA, GEMM, places(WIDE, CL))),
    ("ZCA over its products at the GEMM rate, N < 64", "<=", 2.5, worst, over(ZCA, GEMM, places(NARROW, CL))),
    ("ZCA over torch's BatchNorm2d, channels_last, mean", "<=", 2.2, mean, over(ZCA, TORCH, places(PAPER, CL))),
    ("ZCA in NCHW over channels_last", "<=", 1.25, worst,
     [(("layers", f"{shape} {NCHW}", ZCA, "total"), ("layers", f"{shape} {CL}", ZCA, "total")) for shape in PAPER]),
    ("BN over torch's BatchNorm2d, channels_last, mean", "<=", 1.0, mean, over("BN", TORCH, places(PAPER, CL))),
    ("BN over torch's BatchNorm2d, NCHW, mean", "<=", 0.75, mean, over("BN", TORCH, places(PAPER, NCHW))),
    ("composed ZCA over ZCA", ">=", 6, worst, over(COMPOSED, ZCA, places(ALL, CL, NCHW))),
    ("composed ZCA over ZCA, mean", ">=", 8, mean, over(COMPOSED, ZCA, places(ALL, CL, NCHW))),
    *((f"{spec} over ZCA", "<=", 1.25, worst, over(spec, ZCA, places(ALL, CL))) for spec in OTHERS),
    ("ZCA->W->Gamma over ZCA", "<=", 1.1, worst, over(ROTATED, ZCA, places(ALL, CL))),
    ("ZCA, 1 thread over 2, four largest", ">=", 1.75, worst, over(ZCA, ZCA, places(LARGEST, CL), part="one_of_two")),
    ("step with ZCA over no normalisation", "<=", 1.35, worst, step(FOLDED, NONE, DIGITS)),
    ("step with ZCA, not folded, over torch's net", "<=", 1.25, worst, step(UNFOLDED, TORCH, DIGITS)),
    ("step with BN over torch's net", "<=", 1.0, worst, step(OUR_BN, TORCH, DIGITS)),
    ("step with ZCA over torch's net", "<=", 0.85, worst, step(FOLDED, TORCH, DIGITS)),
    ("step with ZCA over ours with BN", "<=", 1.08, worst, step(FOLDED, OUR_BN, DIGITS)),
    ("step with ZCA, sample_stride 2, over ours with BN", "<=", 1.0, worst,
     step(FOLDED + ", sample_stride 2", OUR_BN, DIGITS)),
    ("stack with ZCA, group_size=64, over torch's", "<=", 1.1, worst, step(FOLDED, TORCH, STACK)),
    ("tensors of a step with ZCA at their peak, over torch's", "<=", 1.0, worst,
     step(FOLDED, TORCH, DIGITS + STACK, "bytes")),
    ("inference of fold(net) over no layers", "<=", 1.02, worst,
     over("ours, ZCA, fold(net)", NONE, INFERENCE, "inference")),
    ("extra MiB of tensors, any layer, N <= 128", "<=", 8, worst,
     [(("layers", place, row, "MiB"), None) for place in places(PAPER, CL, NCHW) for row in LAYERS]),
]  # fmt: skip


def measured(run):
    """(section, place, row, part) → (by the median, by the best)."""
    found = {None: (1, 1)}
    for table in run["tables"]:
        for row in table["rows"]:
            key = (table["section"], table["place"], row["name"])
            for part, times in row.items():
                if isinstance(times, dict):
                    found[key + (part,)] = times["median_ms"], times["best_ms"]
            if "one_thread" in row and run["threads"] == 2:
                found[key + ("one_of_two",)] = found[key + ("one_thread",)]
            if "extra_bytes" in row:
                found[key + ("bytes",)] = (row["extra_bytes"],) * 2
                found[key + ("MiB",)] = (row["extra_bytes"] / 2**20,) * 2
    return found


def main():
    with open(sys.argv[1]) if len(sys.argv) > 1 else sys.stdin as file:
        try:
            found = measured(json.load(file))
        except (ValueError, KeyError):
            sys.exit("bars.py: expected what orthobatch bench --json prints")
    met, not_met = 0, 0
    for what, sign, limit, taken, pairs in BARS:
        if not all(key in found for pair in pairs for key in pair):
            continue
        ratios = [[found[a][i] / found[b][i] for a, b in pairs] for i in (0, 1)]
        by_median, by_best = (taken(each, sign == "<=") for each in ratios)
        holds = by_median <= limit if sign == "<=" else by_median >= limit
        met, not_met = met + holds, not_met + (not holds)
        worst_at = [a for (a, _), ratio in zip(pairs, ratios[0]) if ratio == by_median]
        where = f"  ({worst_at[0][2]} at {worst_at[0][1]})" if worst_at and not holds else ""
        print(f"{what:58} {sign} {limit:<4} measured {by_median:5.2f}, by best times {by_best:5.2f}"
              f"  {'met' if holds else 'NOT MET'}{where}")  # fmt: skip
    print(f"{met} met, {not_met} not met, {len(BARS) - met - not_met} not judged: not every place was measured")
    return 1 if not_met else 0 if met else 2


if __name__ == "__main__":
    sys.exit(main())
