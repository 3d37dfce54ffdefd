#!/usr/bin/env bash
# What comes from elsewhere chooses nothing here: checkpoints that name a folder, links out of a folder of pictures,
# names that a terminal obeys, files that ask for all memory, links that another user made; limits of the shell.
# usage: test_strangers.sh PROGRAM MAKE_IMAGES
make_images=$2
source "$(dirname "$0")/program.sh" "$1"
grep -qw avx2 /proc/cpuinfo && export OPENBLAS_CORETYPE=Haswell  # else each start may be two

echo '{"blocks": [{"channels": 4, "fov": 4, "stride": 4}], "epochs": 2, "refresh_images": 0}' > small.json
small="--config small.json --threads 1"
# within MIB COMMAND…: in that much memory at its peak
within() {
  local limit=$1 peak
  shift
  /usr/bin/env python3 - "$@" > peak <<'PY'
import resource, subprocess, sys
def limit(): resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))  # what fails here must not take the machine
subprocess.run(sys.argv[1:], preexec_fn=limit, stdout=subprocess.DEVNULL, stderr=open('said', 'w'), stdin=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
PY
  peak=$(cat peak)
  [ "$peak" -le "$limit" ] || fail "$*: took $peak MiB, $limit were allowed: $(cat said)"
}

# --- a checkpoint that names a folder of this disk -----------------------------------------------
"$make_images" private 3 30 16 16 grey png
"$program" train --data private --out mine $small --quiet || fail 'a run to begin with'
expect 0 'test error' eval mine
expect 0 'test images: ' export mine --page mine.html
cp -r mine theirs  # as from an archive: in a folder that the run was not made in
expect 1 'theirs/best.safetensors: data: expected --data DIR or --data-dir DIR.* found .*/private' eval theirs
expect 0 'random images' export theirs --page theirs.html
grep -q 'data:image/png' theirs.html && fail 'a page of a stranger’s net has pictures of a folder that nobody named'
expect 1 'theirs/config.json: data: expected --data DIR' train --resume theirs --epochs 3
expect 1 'theirs/config.json: data: expected --data DIR' train --resume theirs --epochs 3 --dry-run
expect 0 'test error' eval theirs --data private
expect 0 'test error' eval theirs --data-dir private
expect 0 'epoch 3/3' train --resume theirs --epochs 3 --data-dir private
expect 0 'test error' eval theirs
# With a place of one's own beside it, what the config names is still not read unasked.
cp -r private moved
cp -r mine again
expect 0 'epoch 3/3' train --resume again --epochs 3 --data-dir moved
expect 1 'again/best.safetensors: data: expected --data DIR' eval again
if [ "$(id -u)" -eq 0 ]; then
  chown -R 12345 theirs
  expect 1 'theirs/best.safetensors: data: expected' eval theirs
fi

# --- other pictures than the run began with ------------------------------------------------------
refused() { expect 1 'the data is not what the run was trained on: (md5|mean|deviation): expected' train --resume mine --epochs 3 --threads 1; }
cp -r private kept
back() { rm -r private && cp -r kept private; }
exchange() { mv "$1" one && mv "$2" "$1" && mv one "$2"; }
tests=$("$program" data show private --picture sheet.png | sed -n 's/^all  *[0-9]*  *\([0-9]*\)$/\1/p')
[ "${tests:-0}" -gt 0 ] || fail 'no test images'
exchange private/0/1.png private/0/2.png && refused
back
exchange private/0/1.png private/1/1.png && refused
back
expect 0 'epoch 3/3' train --resume mine --epochs 3 --threads 1

# --- best of another run, or a history that was changed ------------------------------------------
for n in 1 2; do
  "$program" train --data synthetic --subset 200 --out run$n $small --seed $n --quiet || fail "run $n"
done
cp -r run1 mixed && cp run2/best.safetensors mixed/
for command in 'eval mixed' 'export mixed -o mixed.onnx' 'train --resume mixed --epochs 3'; do
  expect 1 'seed: expected 2 as in mixed/best.safetensors, found 1: they are of two runs' $command
done
[ -e mixed.onnx ] && fail 'a net of another run was written'
expect 0 'test error' eval mixed/best.safetensors
cp -r run1 gone && rm gone/last.safetensors
expect 0 'gone/last.safetensors: file: expected the newest checkpoint, found none' train --resume gone --epochs 3 --threads 1
also 'continuing from gone/previous.safetensors'

# --- links ---------------------------------------------------------------------------------------
mkdir -p linked outside/class && cp private/0/*.png outside/class/
cp -r private/[01] linked/
ln -s "$work/outside/class" linked/2
ln -s / linked/root
ln -s "$work/private/2/1.png" linked/0/out.png
ln -s 1.png linked/0/in.png
timeout 20 "$program" data verify linked > out 2>&1 || fail "links out of a folder: $(tail -3 out)"
grep -q '61 training\|/linked: [0-9]* training and [0-9]* test images.* 2 classes' out || fail "links out of a folder: $(cat out)"
for name in 2 0/out.png root; do
  grep -qE "linked/$name: skipped: a link (that leads out of|back)" out || fail "linked/$name: $(cat out)"
done
[ "$(($(sed -n 's/.*: \([0-9]*\) training and \([0-9]*\) test.*/\1+\2/p' out)))" -eq 61 ] || fail "60 pictures and a link within: $(tail -1 out)"
rm linked/root
expect 0 '3 classes' data verify linked --follow-links
for n in $(seq 30); do ln -s /etc "linked/etc$n"; done
expect 0 'and 1[0-9] more such notes' data verify linked
cp -r outside/class named && mkdir -p stray && ln -s "$work/private" stray/private
expect 1 'folders: expected two or more' eval again --data-dir stray

# --- small files that ask for all memory ---------------------------------------------------------
mkdir -p tall/a tall/b && cp private/0/[1-9].png tall/a/ && cp private/1/[1-9].png tall/b/
python3 - <<'PY'
import gzip, struct, zlib
def png(name, width, height, kind=2, channels=3):
    def chunk(mark, data): return struct.pack('>I', len(data)) + mark + data + struct.pack('>I', zlib.crc32(mark + data))
    rows = zlib.compress(bytes((width * channels + 1) * height), 9)
    with open(name, 'wb') as f:
        f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, kind, 0, 0, 0)) +
                chunk(b'IDAT', rows) + chunk(b'IEND', b''))
png('tall/a/tall.png', 1, 1000000)
import os
os.mkdir('bomb'); os.mkdir('many')
zeros = bytes(1 << 20)
with gzip.open('bomb/x-images-idx3-ubyte.gz', 'wb') as f:
    f.write(bytes([0, 0, 8, 3]) + struct.pack('>III', 2000, 1024, 1024))
    for _ in range(2000): f.write(zeros)
with gzip.open('bomb/x-labels-idx1-ubyte.gz', 'wb') as f: f.write(bytes([0, 0, 8, 1]) + struct.pack('>I', 2000) + bytes(range(2)) * 1000)
for name, head in (('images-idx3', bytes([0, 0, 8, 3]) + struct.pack('>III', 30000000, 1, 1)),
                   ('labels-idx1', bytes([0, 0, 8, 1]) + struct.pack('>I', 30000000))):
    with gzip.open(f'many/x-{name}-ubyte.gz', 'wb') as f: f.write(head + bytes(30000000))
PY
within 1500 "$program" data verify tall --image-size 512x512
within 1000 "$program" data verify bomb
grep -q 'bomb/x-images.*compressed data: expected at most 100 times its size' said || fail "a bomb: $(cat said)"
within 1000 "$program" data verify many
grep -q 'many/x-.*compressed data: expected at most 100 times its size' said || fail "many images: $(cat said)"
mkdir full && (cd full && seq 40000 | xargs mkdir)
begun=$SECONDS
expect 1 'full: folders: expected 2048 classes at most, found 40000' data verify full
[ $((SECONDS - begun)) -le 5 ] || fail "40,000 folders took $((SECONDS - begun)) s"
rm -r full

# --- names and texts that a terminal obeys -------------------------------------------------------
esc=$'\e' c1=$'\xc2\x9b' bidi=$'\xe2\x80\xae'
# silent CODE ARGUMENTS…: nothing of it reaches the terminal
silent() {
  local wanted=$1 code
  shift
  "$program" "$@" > out 2>&1
  code=$?
  [ $code -eq "$wanted" ] || fail "orthobatch $*: exit $code: $(cat -v out)"
  LC_ALL=C grep -qE "$esc|$c1|$bidi" out && fail "orthobatch $*: obeyed by a terminal: $(cat -v out)"
  return 0
}
name="run$esc[2J$c1$bidi<script>\`|
new"
mkdir runs && cp -r run1 "runs/$name"
silent 0 runs runs
silent 0 runs runs --json
silent 0 compare run1 "runs/$name"
silent 0 eval "runs/$name"
silent 0 eval "runs/$name" --json
silent 0 export "runs/$name" -o "runs/$name.onnx"
silent 0 train --resume "runs/$name" --epochs 3 --threads 1
cp -r run2 "runs/2$name"
rm runs/*/config.json
silent 0 report runs --markdown report.md -o page.html
LC_ALL=C grep -qE "<script>|$esc|$c1|$bidi" report.md && fail "report.md: $(cat -v report.md)"
grep -q '^new' report.md && fail "report.md has a cell in two lines: $(cat -v report.md)"
printf '{"ep%sochs": 3}' "$c1$bidi" > keys.json
silent 1 train --config keys.json
printf '{"layer": "ZCA%s"}' "$c1$bidi" > value.json
silent 1 train --config value.json
silent 2 train --data "./$name"
silent 1 eval "./$name"
silent 2 data verify "./$name"
mkdir -p "odd/a$c1" "odd/b$bidi" && cp private/0/*.png "odd/a$c1/" && cp private/1/*.png "odd/b$bidi/"
echo text > "odd/a$c1/$name"
silent 0 train --data odd --out odd-run $small
silent 0 eval odd-run
silent 0 data show odd --picture sheet.png
mkdir 'odd/a\xc2\x9b' && cp private/2/*.png 'odd/a\xc2\x9b/'
expect 1 'odd: folders: expected names that look different, found two classes that look like a.xc2.x9b' data verify odd

# --- links that another user made, limits of the shell -------------------------------------------
if [ "$(id -u)" -eq 0 ]; then
  mkdir shared && chmod 1777 shared
  echo precious > victim
  ln -s "$work/victim" shared/page.html && chown -h 12345 shared/page.html
  expect 1 'shared/page.html: type: expected a file, or a link of your own, found a link that another user made' \
    report run1 -o shared/page.html
  [ "$(cat victim)" = precious ] || fail 'a file was written through a link of another user'
  ln -s "$work/victim" own.html
  expect 0 'Report: own.html' report run1 -o own.html
  [ -L own.html ] && [ "$(head -c 9 victim)" != precious ] || fail 'a link of one’s own'
fi
output=$(ulimit -f 1; "$program" train --data synthetic --subset 200 --out large $small 2>&1)
code=$?
{ [ $code -eq 1 ] && grep -q 'large/.*: cannot write: File too large' <<<"$output"; } ||
  fail "ulimit -f: exit $code, $output"

if [ "$(id -u)" -eq 0 ] && command -v setpriv prlimit >/dev/null; then
  chmod 755 "$work" && mkdir limited && chmod 777 limited
  OPENBLAS_NUM_THREADS=1 timeout 60 setpriv --reuid=61234 --clear-groups prlimit --nproc=3 \
    "$program" train --data synthetic --subset 200 --out limited/run --config small.json --threads 2 > out 2>&1
  code=$?
  { [ $code -eq 1 ] && grep -q 'threads: expected room for 6 (ulimit -u.*found [0-5]; raise the limit' out; } ||
    fail "ulimit -u: exit $code, $(cat out)"
fi

[ "$failures" -eq 0 ] && echo 'strangers: all as expected'
exit "$failures"
