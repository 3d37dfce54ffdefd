#!/usr/bin/env bash
# An installation by CMake holds a Python package that imports and trains, and says what is wrong where it does not.
#
#   test_prefix.sh BUILD PYTHON FOLDER
set -euo pipefail
build=$1 python=$2 folder=$3

rm -rf "$folder" && mkdir -p "$folder"
unset PYTHONPATH
cd "$folder"
for component in library python; do cmake --install "$build" --prefix "$folder/prefix" --component $component >/dev/null; done

cat >use.py <<'END'
import sys

import torch

import orthobatch

assert orthobatch.__file__.startswith(sys.argv[1]), orthobatch.__file__
layer = orthobatch.BatchOrtho2d(8, "ZCA(1e-5)")
layer(torch.randn(4, 8, 3, 3)).square().sum().backward()
assert layer.num_batches_tracked == 1 and layer.weight.grad is not None
print(orthobatch.__version__)
END
home=$(dirname "$(dirname "$(find "$folder/prefix" -type f -name py.typed)")")
link=$(dirname "$(find "$folder/prefix" -type l -name orthobatch)")
[ "$(basename "$home")" = python ]
for place in "$home" "$link"; do
  said=$(PYTHONPATH=$place "$python" use.py "$place")
  echo "$place: orthobatch $said"
done

# One that was built for another torch names both, and a folder without the library says what is missing.
refused() {
  if PYTHONPATH=$home "$python" -c 'import orthobatch' 2>error; then echo "$1: expected an error" >&2; exit 1; fi
  tail -n 1 error | grep -q "$1" || { cat error >&2; exit 1; }
}
cp "$home/orthobatch/_built_for.py" built_for.py
sed -i 's/TORCH = .*/TORCH = "1.4.2"/' "$home/orthobatch/_built_for.py"
refused 'ImportError: orthobatch: expected torch 1.4.2, which it was built for, found torch [12]'
cp built_for.py "$home/orthobatch/_built_for.py"
rm "$home/orthobatch/liborthobatch.so"
refused 'ImportError: orthobatch: expected liborthobatch.so beside its Python files'
