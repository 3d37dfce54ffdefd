#!/usr/bin/env bash
# In a clean root, as scripts/test-packages has it: installs build/packages/*.deb with apt, one after the other, uses
# each, and removes them.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=$PWD/build/packages source=$PWD
export DEBIAN_FRONTEND=noninteractive OMP_NUM_THREADS=1
work=$(mktemp -d)
cd "$work"

add() { apt-get install -y -qq --no-install-recommends "$@" >apt.log 2>&1 || { cat apt.log >&2; exit 1; }; }
step() { printf '\n== %s\n' "$*"; }

apt-get update -qq
step "orthobatch alone"
add "$packages"/orthobatch_*.deb
! command -v c++ python3 || { echo "expected a root without compiler and Python" >&2; exit 1; }
orthobatch --version
orthobatch train --data synthetic --epochs 1 --subset 512
orthobatch eval runs/* | head -n 2
orthobatch check 'ZCA(1e-5)' | tail -n 1
zcat /usr/share/man/man1/orthobatch.1.gz | head -n 2
bash -c '. /usr/share/bash-completion/completions/orthobatch
  COMP_WORDS=(orthobatch train --head "") COMP_CWORD=3; _orthobatch; [ "${COMPREPLY[*]}" = "flat average max" ]'

step "python3-orthobatch"
add "$packages"/python3-orthobatch_*.deb
python3 -c '
import torch, orthobatch
layer = orthobatch.BatchOrtho2d(8, "ZCA(1e-5)")
layer(torch.randn(4, 8, 3, 3)).square().sum().backward()
assert layer.weight.grad is not None
print("orthobatch", orthobatch.__version__, "in", orthobatch.__file__, "with torch", torch.__version__)'
ls /usr/lib/python3/dist-packages/orthobatch/__pycache__/__init__.*.pyc

step "liborthobatch-dev"
add "$packages"/liborthobatch*.deb
add cmake g++ make pkgconf
cmake -S "$source/tests/consumer" -B consumer-build >cmake.log 2>&1 || { cat cmake.log; exit 1; }
cmake --build consumer-build
consumer-build/consumer | head -n 1
ldd consumer-build/consumer | grep 'liborthobatch\.so\.'
# shellcheck disable=SC2046
g++ -O1 "$source/tests/consumer/main.cpp" -o consumer $(pkg-config --cflags --libs orthobatch)
./consumer | head -n 1

step "removed"
apt-get purge -y -qq orthobatch python3-orthobatch 'liborthobatch*' >apt.log 2>&1
left=$(find /usr /etc /var/lib -path '*orthobatch*' -not -path "$source*" | head)
[ -z "$left" ] || { echo "left behind: $left" >&2; exit 1; }
rm -rf "$work"
echo "all packages installed, worked and went"
