#!/usr/bin/env bash
# A wheel, and an installation by CMake, hold a package that imports and trains.
#
#   test_wheel.sh SOURCE BUILD PYTHON FOLDER
set -euo pipefail
source=$1 build=$2 python=$3 folder=$4

rm -rf "$folder" && mkdir -p "$folder/wheel" "$folder/unpacked"
cp -r "$source/pyproject.toml" "$source/setup.py" "$source/CMakeLists.txt" "$source/python" "$folder"
mkdir "$folder/docs" && cp "$source/docs/python.md" "$folder/docs"
unset PYTHONPATH
cd "$folder"
ORTHOBATCH_BUILD_DIR=$build "$python" -m pip wheel . --no-build-isolation -w wheel >pip.log 2>&1 || { cat pip.log >&2; exit 1; }
wheel=$(ls wheel/orthobatch-*-py3-none-linux_*.whl)
"$python" -m zipfile -e "$wheel" unpacked
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
for place in "$folder/unpacked" "$home" "$link"; do
  said=$(PYTHONPATH=$place "$python" use.py "$place")
  echo "$place: orthobatch $said"
done
# A folder without the library says what is missing.
rm unpacked/orthobatch/liborthobatch.so
if PYTHONPATH=$folder/unpacked "$python" -c 'import orthobatch' 2>error; then exit 1; fi
grep -q 'ImportError: orthobatch: expected liborthobatch.so beside its Python files' error
