"""The wheel that is installed beside this torch needs nothing of the system's, and brings no second OpenMP."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import torch

import orthobatch
from orthobatch import _library

assert orthobatch.check("ZCA(1e-5)"), "expected gradients as by central differences"
home = Path(orthobatch.__file__).parent
assert "site-packages" in home.parts, home

major, minor = torch.__version__.split(".")[:2]
(wanted,) = [line for line in importlib.metadata.requires("orthobatch") if "extra" not in line]
assert re.fullmatch(rf"torch<{major}\.{int(minor) + 1}\.0a0,>={major}\.{minor}\.0a0", wanted), wanted

library = home / "liborthobatch.so"
needed = set(re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout))
of_torch = {path.name for path in (Path(torch.__file__).parent / "lib").iterdir()}
of_every_system = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libpthread.so.0", "libdl.so.2"}
assert needed <= of_torch | of_every_system, needed - of_torch - of_every_system

loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
openmp = {path for path in loaded if re.match(r"lib(g|i)?omp", Path(path).name)}
assert len(openmp) == 1, openmp
assert not any("openblas" in Path(path).name or "dnnl" in Path(path).name for path in loaded - {""} if "numpy" not in path), loaded
torch.set_num_threads(2)
print(f"orthobatch {orthobatch.__version__} for torch {_library._TORCH}: needs {' '.join(sorted(needed))}; {openmp.pop()}", file=sys.stdout)
