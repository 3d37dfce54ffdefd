#!/usr/bin/env bash
# Files from someone who means harm: any file of a run replaced by another file, a device, a pipe, a socket, a link or a
# folder; pipes in place of data and settings; streams that are closed. No crash, no hang, nothing written elsewhere.
# usage: test_hostile.sh PROGRAM [SECONDS]    how long a command may take, 20 unless told: 5 serve an idle machine
source "$(dirname "$0")/program.sh" "$1"
grep -qw avx2 /proc/cpuinfo && export OPENBLAS_CORETYPE=Haswell  # else each start may be two

limit=${2:-20}
mkdir outside
echo victim > outside/victim
outside_is() { (cd outside && find . | sort && cat victim); }
before=$(outside_is)

# within SECONDS CODES PATTERN ARGUMENTS…: ends in time, with one of the codes, says so, and did not crash. What hangs
# does so for ever; the seconds are for a machine with other work.
within() {
  local seconds=$1 codes=$2 pattern=$3 output code
  shift 3
  output=$(timeout -s KILL "$seconds" "$program" "$@" 2>&1 </dev/null)
  code=$?
  { grep -qw -- "$code" <<<"$codes" && grep -qE -- "$pattern" <<<"$output"; } ||
    fail "orthobatch $*: expected exit $codes and /$pattern/ within $seconds s, got exit $code and: $output"
  grep -qE 'terminate called|frame #|json.exception' <<<"$output" && fail "orthobatch $*: a raw error: $output"
}

kinds='text other pipe socket device link dangling folder'
# replace FILE KIND
replace() {
  rm -rf "$1"
  case $2 in
    text) echo text > "$1" ;;
    other) cp "$(find "$work/base" -type f -size +0 ! -name "${1##*/}" | sort | head -1)" "$1" ;;
    pipe) mkfifo "$1" ;;
    socket) perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) && bind(S, sockaddr_un($ARGV[0]))' "$1" 2>/dev/null ;;
    device) mknod "$1" c 1 5 2>/dev/null || ln -s /dev/zero "$1" ;;
    link) ln -s "$work/outside/victim" "$1" ;;
    dangling) ln -s "$work/outside/new" "$1" ;;
    folder) mkdir "$1" && touch "$1/inside" ;;
  esac
}

# --- a run of an experiment, and of each of its files a copy of it without ------------------------
row='"blocks": [{"fov": 7, "stride": 7, "channels": 2, "layer": "BN"}]'
# experiment EPOCHS NAMES…
experiment() {
  local epochs=$1 rows='' name
  shift
  for name; do rows+="${rows:+, }{\"name\": \"$name\", $row}"; done
  echo "{\"data\": \"synthetic\", \"epochs\": $epochs, \"pictures\": false, \"settings\":
    {\"subset\": 100, \"refresh_images\": 0, \"schedule\": {\"batch\": 50}}, \"rows\": [$rows]}"
}
experiment 2 first > hostile.json
"$program" reproduce hostile.json --threads 1 --quiet --out made > out 2>&1 || fail "the run to begin with: $(cat out)"
mv made/runs/synthetic-first-seed1 base
"$program" eval base > out 2>&1 || fail "eval of it: $(cat out)"
echo 'a reason' > base/failed.txt
[ -e base/pictures.json ] || fail 'no pictures.json to replace'

names=()
for file in $(ls -A base); do
  for kind in $kinds; do
    name=f${#names[@]}
    run=many/runs/synthetic-$name-seed1
    mkdir -p many/runs && cp -r base $run && replace "$run/$file" $kind
    names+=($name)
    case $file in
      config.json) damaged_config+=($run) ;;
    esac
  done
done
experiment 2 "${names[@]}" > many/many.experiment.json

# --- report of all of them, and of each whose config is gone -------------------------------------
within $limit 0 'Report: page.html' report many -o page.html
within $limit 0 'Report: page.html' report many/runs/* -o page.html
[ "$(outside_is)" = "$before" ] || fail "report: something outside was written: $(outside_is)"

# --- eval: what it reads and writes --------------------------------------------------------------
best=$(basename base/best.*)
for kind in pipe device folder dangling; do
  rm -rf run && cp -r base run && replace run/$best $kind
  within $limit 1 "$best: (type: expected a regular file, found a (pipe|device|folder)|cannot open)" eval run
done
rm -rf run && cp -r base run && replace run/confusion.png link
within $limit 0 'test error' eval run
rm -rf run && cp -r base run && replace run/confusion.png folder
within $limit 0 'Could not write the picture: run/confusion.png: .*; choose another file with --picture' eval run
[ "$(outside_is)" = "$before" ] || fail "eval: something outside was written: $(outside_is)"

# --- train --resume ------------------------------------------------------------------------------
last=$(basename base/last.*)
for kind in pipe folder link; do
  rm -rf run && cp -r base run && replace run/.lock $kind
  within $limit 1 "run/.lock: type: expected a regular file, found a $kind" train --resume run --epochs 3 --threads 1
done
for file in config.json $last; do
  rm -rf run && cp -r base run && replace run/$file pipe
  within $limit 1 "run/$file: type: expected a regular file, found a pipe" train --resume run --epochs 3 --threads 1
done
for kind in link dangling; do
  rm -rf run && cp -r base run && cp base/metrics.jsonl outside/victim && replace run/metrics.jsonl link
  [ $kind = dangling ] && replace run/metrics.jsonl dangling
  within $limit '0 1' . train --resume run --epochs 3 --threads 1
  cmp -s base/metrics.jsonl outside/victim || fail "metrics.jsonl as a $kind link: its target was written"
  echo victim > outside/victim
done
[ "$(outside_is)" = "$before" ] || fail "train --resume: something outside was written: $(outside_is)"

# --- reproduce: all that have a config at once, each of the others alone -------------------------
for run in "${damaged_config[@]}"; do
  name=${run#many/runs/synthetic-} && name=${name%-seed1}
  experiment 3 "$name" > one.json
  within $limit '0 1' . reproduce one.json --threads 1 --quiet --out many
done
rm -rf "${damaged_config[@]}"
experiment 3 "${names[@]}" > all.json
within 120 '0 1' 'trained now' reproduce all.json --threads 1 --quiet --out many
[ "$(outside_is)" = "$before" ] || fail "reproduce: something outside was written: $(outside_is)"

# --- pipes in place of settings and data ---------------------------------------------------------
mkfifo pipe
within $limit 1 'pipe: cannot read: nobody writes to this pipe' train --config pipe
within $limit 1 'pipe: cannot read: nobody writes to this pipe' reproduce pipe --out new
within $limit 1 'type: expected a file or a pipe, found a folder' train --config outside
within $limit 1 'size: expected at most 1048576 bytes, found more' train --config /dev/zero
within $limit 1 'pipe: type: expected a regular file, found a pipe' eval pipe
settings="{\"data\": \"synthetic\", \"subset\": 100, \"epochs\": 1, ${row}}"
echo "$settings" | "$program" train --config /dev/stdin --threads 1 --quiet --out from-stdin || fail '--config /dev/stdin'
(sleep 1 && echo "$settings" > pipe) &
"$program" train --config pipe --threads 1 --quiet --out from-pipe || fail '--config of a pipe whose writer comes late'
experiment 1 first | "$program" reproduce /dev/stdin --threads 1 --quiet --out from-stdin-too > out 2>&1 ||
  fail "an experiment from /dev/stdin: $(cat out)"
mkdir -p data/mnist data/svhn
mkfifo data/mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte data/svhn/train_32x32.mat
within $limit 1 'mnist/.*-ubyte: type: expected a regular file, found a pipe' data verify mnist --data-dir data
within $limit 1 'svhn/train_32x32.mat: type: expected a regular file, found a pipe' data verify svhn --data-dir data

# --- a signal during start-up ends the program ---------------------------------------------------
sleep 30 > pipe &
writer=$!
"$program" train --config pipe &
pid=$!
sleep 1
kill -TERM $pid
for _ in $(seq 40); do kill -0 $pid 2>/dev/null || break; sleep 0.1; done
kill -KILL $pid 2>/dev/null && fail 'SIGTERM while waiting for a config was swallowed'
wait $pid
kill $writer

# --- streams that are closed ---------------------------------------------------------------------
echo "$settings" > settings.json
"$program" train --config settings.json --threads 1 --out closed <&- >&- 2>&- || fail "all streams closed: exit $?"
[ -s closed/.lock ] && fail "progress went into the lock: $(cat closed/.lock)"
"$program" train --config settings.json --threads 1 --out full 2>/dev/full || fail "progress that cannot be written ended a run: $?"
for verb in 'report closed -o page.html' 'eval closed'; do
  output=$("$program" $verb 2>&1 >/dev/full)
  code=$?
  { [ $code -eq 1 ] && grep -q 'standard output: cannot write' <<<"$output"; } || fail "$verb to a full device: exit $code, $output"
done

# --- what failed says what is so -----------------------------------------------------------------
"$program" train --config settings.json --threads 1 --epochs 1000 --out gone > out 2>&1 &
pid=$!
for _ in $(seq 200); do grep -qs '"epoch":2' gone/metrics.jsonl && break; sleep 0.05; done
mv gone moved
wait $pid && fail 'a run whose folder is gone ended well'
grep -q 'intact' out && fail "a folder that is gone is intact: $(tail -1 out)"
grep -qE '^orthobatch: gone/.*No such file' out || fail "a folder that is gone: $(tail -1 out)"

[ "$failures" -eq 0 ] && echo 'hostile: all as expected'
exit "$failures"
