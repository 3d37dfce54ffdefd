"""What `orthobatch bench --quick --json` must hold, and what bench/bars.py makes of it.

usage: bench_json.py BARS_PY QUICK_JSON
"""

import copy
import importlib.util
import json
import subprocess
import sys

script, path = sys.argv[1:]
spec = importlib.util.spec_from_file_location("bars", script)
bars = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(bars)
with open(path) as file:
    run = json.load(file)

assert run["format"] == "orthobatch bench 1"
assert {"system", "architecture", "cpu", "cores"} <= set(run["machine"])
assert {"orthobatch", "torch", "compiler", "products"} <= set(run["versions"])
assert run["threads"] == 1 and run["repeats"] == 1 and run["load_before"] >= 0

sections = [table["section"] for table in run["tables"]]
# Two shapes in two layouts; channels and samples; two nets and the stack; two nets in two batches.
assert {name: sections.count(name) for name in sections} == {"layers": 4, "scaling": 2, "step": 3, "inference": 4}
for table in run["tables"]:
    for row in table["rows"]:
        for part, times in row.items():
            if isinstance(times, dict):
                assert 0 < times["best_ms"] <= times["median_ms"], (table["place"], row)
                assert len(times["each_ms"]) == run["repeats"]
    names = [row["name"] for row in table["rows"]]
    if table["section"] == "layers":
        assert table["gemm_gflops"] > 0
        assert names[:4] == [bars.GEMM, bars.TORCH, "BN", bars.ZCA], names
        assert all({"total", "forward", "backward", "extra_bytes"} <= set(row) for row in table["rows"][1:])
        assert all("algebra" in row for row in table["rows"][2:-1])
    if table["section"] == "step":
        assert names[:2] == [bars.NONE, bars.TORCH] and len(names) == 7, names
        assert all(row["extra_bytes"] > 0 for row in table["rows"])
    if table["section"] == "scaling":
        assert "exponent" in table


def judged(run):
    done = subprocess.run([sys.executable, script], input=json.dumps(run), capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


# Small shapes are not judged by the bars of the large.
code, output = judged(run)
assert code == 2 and "0 met, 0 not met" in output, output

# The same rows with every place that a bar speaks of, and times that meet all of them.
rows = {table["section"]: table["rows"] for table in run["tables"]}
times = {bars.COMPOSED: 10, "BN": 0.5, bars.OUR_BN: 0.8, bars.FOLDED: 0.8, bars.FOLDED + ", sample_stride 2": 0.8}
good = {"threads": 2, "tables": []}
for section, place in sorted({key[:2] for *_, pairs in bars.BARS for pair in pairs for key in pair if key}):
    table = {"section": section, "place": place, "rows": copy.deepcopy(rows[section])}
    for row in table["rows"]:
        took = times.get(row["name"], 1)
        row["total"] = {"median_ms": took, "best_ms": took}
        row["one_thread"] = {"median_ms": 2 * took, "best_ms": 2 * took}
        row["extra_bytes"] = 1 << 20
    good["tables"].append(table)
code, output = judged(good)
assert code == 0 and f"{len(bars.BARS)} met, 0 not met, 0 not judged" in output, output

bad = copy.deepcopy(good)
[table] = [t for t in bad["tables"] if t["place"] == "256x128x14x14 channels_last"]
[zca] = [row for row in table["rows"] if row["name"] == bars.ZCA]
zca["total"] = {"median_ms": 1.4, "best_ms": 1.3}
code, output = judged(bad)
line = next(line for line in output.splitlines() if "N >= 64" in line)
assert code == 1 and "<= 1.35" in line and " 1.40," in line, output
assert line.endswith("NOT MET  (256x128x14x14 channels_last)"), line

# At another number of threads the bar of two is not judged.
code, output = judged({**good, "threads": 4})
assert code == 0 and "1 not judged" in output, output
