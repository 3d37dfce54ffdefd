#!/usr/bin/env bash
# Training on a user's own pictures: folders and idx files, good and bad.
# usage: test_own_pictures.sh PROGRAM MAKE_IMAGES
make_images=$2
source "$(dirname "$0")/program.sh" "$1"
grep -qw avx2 /proc/cpuinfo && export OPENBLAS_CORETYPE=Haswell  # else each start may be two

echo '{"blocks": [{"channels": 8}, {"fov": 4, "stride": 2, "channels": 8}], "epochs": 2, "refresh_images": 200}' > small.json
small="--config small.json --threads 1"
metrics() { sed 's/,"time":.*//' "$1/metrics.jsonl"; }
same() { [ "$(metrics "$1")" = "$(metrics "$2")" ] && [ -n "$(metrics "$1")" ]; }

# --- a thousand images, three bad files ----------------------------------------------------------
"$make_images" pics 4 250 20 20 grey png
echo 'a text' > pics/0/text.png
: > pics/1/empty.png
head -c 200 pics/2/7.png > pics/2/cut.png
expect 0 'epoch 2/2' train --data pics --layer 'ZCA(1e-5)' --out run $small
also '^orthobatch: .*pics/0/text.png: content: expected a PNG or JPEG image, found text$'
also '^orthobatch: .*pics/1/empty.png: content: expected a PNG or JPEG image, found an empty file$'
also '^orthobatch: .*pics/2/cut.png: PNG: .*not whole$'
also 'pics: 3 files skipped, 1,000 images used$'
also 'on .*/pics: [0-9]+ training and [0-9]+ test images, 20×20 pixels, grey, 4 classes'
[ "$(sed -n 's/.*"batch":\([0-9]*\).*/\1/p' run/metrics.jsonl | head -1)" = 32 ] || fail 'few images: not a batch of 32'
grep -q '"classes"' run/config.json || fail 'no classes in config.json'
expect 1 'strict: .*found 3 files that cannot be used' train --data pics --strict --out strict $small
[ -e strict ] && fail '--strict left a folder'
expect 0 'test error [0-9.]+ % \([0-9]+ of [0-9]+\)' eval run
error=$(sed -n 's/.*"test_error_percent":\([0-9.]*\).*/\1/p' run/metrics.jsonl | sort -g | head -1)
also "test error $(printf %.2f "$error") %"
awk -v e="$error" 'BEGIN { exit !(e < 20) }' || fail "pictures that can be told apart: test error $error %"
expect 1 '3 files cannot be used' data verify pics
expect 0 'test images: [0-9.]+ % wrong' export run -o run.onnx
expect 0 '^all +[0-9]+ +[0-9]+$' data show pics --picture sheet.png
[ -s sheet.png ] || fail 'no contact sheet'
rm pics/0/text.png pics/1/empty.png pics/2/cut.png
expect 0 'all files are readable' data verify pics

# The same with any number of threads, and from anywhere.
"$program" train --config small.json --threads 2 --epochs 1 --data "$work/pics/" --layer 'ZCA(1e-5)' --out twice --quiet >out 2>&1 || fail "a quiet run: $(cat out)"
[ -s out ] && fail "--quiet says: $(cat out)"
settings() { sed 's/"threads": 2/"threads": 1/; s/"epochs": 1/"epochs": 2/; /"origin"/d' "$1/config.json"; }
[ "$(settings twice)" = "$(settings run)" ] || fail 'other data with two threads'

# --- resumed, moved, changed ---------------------------------------------------------------------
cp -r run longer
expect 0 'epoch 3/3' train --resume longer --epochs 3 --data-dir pics
"$program" train --data pics --layer 'ZCA(1e-5)' --out whole $small --epochs 3 --quiet || fail 'a run of three epochs'
same whole longer || fail 'the resumed run differs'
mv pics moved
expect 1 '/pics: data: expected a folder with a folder of images for each class, found nothing' train --resume longer --epochs 4
expect 0 'epoch 4/4' train --resume longer --epochs 4 --data-dir moved
expect 0 'test error' eval run --data moved
mv moved pics
mv pics/3/9.png .
expect 1 'the data is not what the run was trained on: train_images: expected' train --resume run --epochs 4
mv 9.png pics/3/
cp -r pics/3 pics/extra
expect 1 'the data is not what the run was trained on' train --resume run --epochs 4
expect 1 'classes: expected those of the net, 0, 1, 2 or 3, found extra too' eval run
rm -r pics/extra
expect 0 'epoch 3/3' train --resume run --epochs 3
expect 1 'expected \[20,20,1\]' eval run --data synthetic

# --- names, colour, sizes, kinds -----------------------------------------------------------------
"$make_images" colour 3 40 24 18 colour mixed
mv colour/0 'colour/a cat'
mv colour/1 'colour/perro número uno'
mv colour/2 $'colour/new\nline'
"$make_images" larger 1 9 90 70 colour jpeg
mv larger/0/* 'colour/a cat/'
expect 0 'images of 2 sizes, 24×18 to 90×70 pixels, most of them 24×18, become 24×18' train --data ./colour --out colours $small
also '24×18 pixels, colour, 3 classes'
expect 0 '^\[2\] perro número uno' eval colours
also '^\[1\] new.x0aline'
expect 0 '12×12 pixels, colour' train --data ./colour --image-size 12x12 --out resized $small
grep -q '"image_size": "12x12"' resized/config.json || fail 'no image_size in config.json'
expect 0 'epoch 3/3' train --resume resized --epochs 3
expect 2 "image-size: expected WIDTHxHEIGHT.*found '12'" train --data ./colour --image-size 12 --out refused $small
expect 2 'image_size: expected only with a folder of images' train --data synthetic --image-size 9x9 --out refused $small
"$make_images" photos 2 12 224 224 colour jpeg
expect 0 'images of 224×224 pixels become 64×64 \(--image-size 224x224 keeps them\)' train --data photos --epochs 1 --threads 1 --set 'blocks=[{"channels":4,"fov":8,"stride":8}]' --out photo

# Forty classes, split by the user; one class without images, one with a single one.
"$make_images" forty/train 40 6 20 20 grey png
"$make_images" forty/test 40 2 20 20 grey png
mkdir forty/train/none
mkdir forty/train/single && cp forty/train/3/1.png forty/train/single/
expect 0 'class none skipped: no training image, 0 to test' train --data forty --out forties $small
also '241 training and 80 test images, 20×20 pixels, grey, 41 classes'
expect 0 'most often taken for' eval forties
[ -s forties/confusion.png ] || fail 'no confusion.png of 41 classes'
expect 0 'on .*forty' train --data forty --processes 2 --out together --config small.json --epochs 1

# --- idx files -----------------------------------------------------------------------------------
mkdir idx
{ printf '\0\0\10\3\0\0\0\120\0\0\0\20\0\0\0\20'; head -c 20480 /dev/urandom; } | gzip > idx/own-images-idx3-ubyte.gz
{ printf '\0\0\10\1\0\0\0\120'; for _ in $(seq 20); do printf '\3\5\7\11'; done; } > idx/own-labels-idx1-ubyte
expect 0 '72 training and 8 test images, 16×16 pixels, grey, 4 classes' train --data idx --out idx-run $small
expect 0 '^9 ' eval idx-run

# --- nothing to train on -------------------------------------------------------------------------
mkdir empty
expect 1 '/empty: folders: expected two or more, one of images for each class, found none' train --data empty
expect 1 '/nowhere: data: expected a folder' train --data ./nowhere
expect 2 "found 'nowhere'" train --data nowhere
expect 1 'sheet.png: data: expected a folder .*, found no folder' train --data ./sheet.png
mkdir -p one/class && cp pics/0/1.png one/class/
expect 1 'expected two or more, .* found one, class' train --data one
expect 1 'found nothing' data show ./nowhere
expect 2 'expected mnist' data get ./pics
[ -e runs ] && fail 'a refused training left a folder'
mkdir -p unreadable/a unreadable/b && cp pics/0/[1-9].png unreadable/a/ && cp pics/1/[1-9].png unreadable/b/
chmod 0 unreadable/a/3.png
mkfifo unreadable/b/pipe.png
expect 0 'pipe.png: type: expected a regular file, found a pipe' train --data unreadable --out pipes $small
[ "$(id -u)" -eq 0 ] || also 'a/3.png: cannot open: Permission denied'
ln -s . unreadable/loop
expect 0 'loop: skipped: a link back' train --data unreadable --out loops $small

[ "$failures" -eq 0 ] && echo 'own pictures: all as expected'
exit "$failures"
