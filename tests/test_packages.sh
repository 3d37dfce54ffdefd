#!/usr/bin/env bash
# The Debian packages that cpack makes of a build tree: their fields and files, and what is in them at work where
# dpkg-deb unpacks it.
#
#   test_packages.sh PROGRAM SOURCE BUILD CXX PYTHON|none
source=$2 build=$3 cxx=$4 python=$5
. "$source/tests/program.sh"

finish() {
  [ "$failures" -eq 0 ] || { echo "$failures failures"; exit 1; }
  exit 0
}
# must COMMAND: its output is shown where it fails
must() { "$@" >log 2>&1 || fail "$*: $(tail -n 20 log)"; }

cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work/debs" >cpack.log 2>&1 || { cat cpack.log; exit 1; }
version=$("$program" --version | sed -n '1s/.* //p')
series=${version%%.*}
names="liborthobatch-dev liborthobatch$series orthobatch"
[ "$python" = none ] || names+=" python3-orthobatch"

# Fields: of each package, what it depends on.
depends() {
  case $1 in
    orthobatch) echo libc6 libtorch libfmt ;;
    python3-orthobatch) echo python3 python3-torch "liborthobatch$series (= $version" ;;
    liborthobatch-dev) echo libtorch-dev "liborthobatch$series (= $version" ;;
    *) echo libc6 libtorch ;;
  esac
}
root=$work/root
for name in $names; do
  deb=$(echo debs/"$name"_"$version"-*_"$(dpkg --print-architecture)".deb)
  [ -e "$deb" ] || { fail "$name: expected a package of version $version, found $(ls debs)"; finish; }
  [ "$(dpkg-deb -f "$deb" Package)" = "$name" ] || fail "$deb: named $(dpkg-deb -f "$deb" Package)"
  for on in $(depends "$name" | sed 's/ (.*//'); do
    dpkg-deb -f "$deb" Depends | grep -qE "(^|, )$on" || fail "$name: expected a dependency $on, found $(dpkg-deb -f "$deb" Depends)"
  done
  dpkg-deb -f "$deb" Description Maintainer Section | grep -q . || fail "$name: no description"
  dpkg-deb -c "$deb" >list
  grep -vE '^(-rw-r--r--|-rwxr-xr-x|drwxr-xr-x|lrwxrwxrwx) root/root ' list && fail "$name: modes or owners"
  documents='copyright changelog.gz changelog.Debian.gz'
  [ "$name" = "liborthobatch$series" ] || documents+=' README.md docs/python.md docs/results/README.md examples/train_cifar10.py'
  for file in $documents; do
    grep -q "/usr/share/doc/$name/$file\$" list || fail "$name: expected $file"
  done
  dpkg-deb -x "$deb" "$root"
done
dpkg-deb -f debs/liborthobatch-dev_*.deb Depends | grep -qF "liborthobatch$series (= $version-" ||
  fail "liborthobatch-dev: expected the runtime library of the same version"

# One command installs them all; where the version stands once more; how a project finds the library in a prefix.
for file in README.md docs/packages.md; do
  grep -qF 'apt-get install ./build/packages/*.deb' "$source/$file" || fail "$file: no command that installs all packages"
done
grep -qx "version: $version" "$source/CITATION.cff" || fail "CITATION.cff: expected version $version"
grep -q -- '-DCMAKE_PREFIX_PATH=PREFIX' "$source/README.md" || fail "README.md: --prefix PREFIX without CMAKE_PREFIX_PATH"

# Nothing of the machine they were made on; no names of symbols that nobody needs.
grep -rlF -e "$source" -e "$build" "$root" && fail "a path of the build machine"
while read -r file; do
  readelf -d "$file" | grep -E 'RPATH|RUNPATH' && fail "$file: a path of libraries"
  readelf -S "$file" | grep -q '\.symtab' && fail "$file: not stripped"
done < <(find "$root" -type f \( -name '*.so*' -o -path '*/bin/*' \))
libraries=$(dirname "$(find "$root/usr/lib" -maxdepth 2 -name liborthobatch.so)")

# The program, in a folder of its own.
program=$root/usr/bin/orthobatch
expect 0 "^built with (g\+\+|clang) [0-9.]+.*(Release|Debug|RelWithDebInfo|MinSizeRel)" --version
expect 0 'best epoch 1' train --data synthetic --epochs 1 --subset 256 --out run
# The man page has a section for each verb, with every option that its --help has.
zcat "$root/usr/share/man/man1/orthobatch.1.gz" | sed 's/\\-/-/g; s/\\f.//g' >page
verbs_below() { "$program" "$@" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]\+\) .*/\1/p'; }
first_verbs=$(verbs_below) checked=0
# It points to nothing that the packages do not have; nor does any --help, which it is made of.
grep -nE 'docs/|scripts/|[A-Za-z]\.md\b' page && fail "man page: files that no package has"
for verb in $first_verbs 'data get'; do
  "$program" $verb --help | sed -nE 's/^  (-[a-z],)?(--[a-z][a-z-]*).*/\2/p' | grep -v '^--help$' >options
  title="ORTHOBATCH ${verb^^}"
  awk -v title=".SH \"$title\"" '/^\.SH/ { on = 0 } $0 == title { on = 1 } on' page >section
  [ -s section ] || fail "man page: no section $title"
  while read -r option; do
    grep -qE -- "^(-[a-z],)?$option( |\$)" section || fail "man page: $verb: no $option"
    checked=$((checked + 1))
  done <options
done
[ "$checked" -ge 60 ] || fail "man page: only $checked options were looked for"
grep -q 'default contact-sheet.png' page && grep -q '^ORTHOBATCH_DATA' page || fail "man page: no defaults, or no environment"

# offers LINE WORD…: what bash offers where LINE ends; = is a word of its own, as bash splits it.
offers() {
  local line=$1 words said
  shift
  read -ra words <<<"${line//=/ = }"
  [[ -z $line || $line == *[\ =] ]] && words+=("")
  # shellcheck disable=SC2016
  said=$(bash -c 'compopt() { :; }; . "$0" && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && _orthobatch; echo "${COMPREPLY[@]}"' \
    "$root/usr/share/bash-completion/completions/orthobatch" "$program" "${words[@]}")
  [ "$said" = "$*" ] || fail "after 'orthobatch $line' expected: $*, found: $said"
}
mkdir empty && cd empty || exit 1
# shellcheck disable=SC2086
offers '' $first_verbs
offers 'trai' train
offers 'data ' get verify show
offers 'data get m' mnist
offers 'train --quiet --head=av' average
offers 'train --layer BN --padding ' valid same
offers 'train --layer LDL' LDL LDL_corr
offers 'check --spectrum ' distinct close equal deficient
offers 'reproduce m' mnist
offers 'runs --la' --layer
offers 'report --mark' --markdown
touch 'a file.json'
offers 'train --config a' 'a file.json'
offers 'data verify a' 'a file.json'
offers 'train --epochs 3 --dry' --dry-run
cd ..

# A program of a user: through pkg-config and through CMake.
export PKG_CONFIG_PATH=$libraries/pkgconfig
main=$source/tests/consumer/main.cpp
run_consumer() { LD_LIBRARY_PATH=$libraries "$1" 2>&1 | grep -q "^orthobatch $version\$" || fail "$1 does not run"; }
if ! said=$(pkg-config --exists --print-errors "orthobatch = $version" 2>&1); then
  fail "pkg-config: $said"
else
  read -ra flags < <(pkg-config --cflags orthobatch)
  must "$cxx" -w "${flags[@]}" -c "$main" -o main.o
  read -ra flags < <(pkg-config --libs orthobatch)
  must "$cxx" main.o "${flags[@]}" -o with_pkg_config
  run_consumer ./with_pkg_config
fi
readelf -d with_pkg_config | grep -qF "[liborthobatch.so.$series]" || fail "expected the name liborthobatch.so.$series"
# Through CMake up to the compiler; tests/consumer builds and runs it.
must cmake -S "$source/tests/consumer" -B with_cmake -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$root/usr"

if [ "$python" != none ]; then
  said=$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/usr/lib/python3/dist-packages "$python" -c '
import torch, orthobatch
orthobatch.BatchOrtho2d(8, "ZCA(1e-5)")(torch.randn(4, 8, 3, 3)).square().sum().backward()
print(orthobatch.__file__)' 2>&1 | tail -n 1)
  [[ $said == "$root/"* ]] || fail "Python: $said"
fi
finish
