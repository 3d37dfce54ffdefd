#!/usr/bin/env bash
# usage: test_export.sh PROGRAM [PYTHON]
# `export` as its user meets it: what it refuses, what it writes, and that Python and ONNX Runtime take it.
. "$(dirname "$0")/program.sh"
python=${2:-}

"$program" train --data synthetic --layer 'ZCA(1e-5)' --subset 512 --epochs 1 --threads 1 --out run --quiet || fail training

expect 0 'model.onnx: 0\.[0-9]+ MB, 2000 test images: ([0-9.]+) % wrong, the run.s own net \1 %; logits within' \
  export run -o model.onnx -o model.pt --page demo.html --threads 1
also '^model.pt: .* logits within'
also '^demo.html: '
grep -q '<canvas' demo.html || fail 'the page has no board'
[ -z "$(ls | grep -v '^\(run\|model.onnx\|model.pt\|demo.html\)$')" ] || fail "left behind: $(ls)"

expect 2 '-o: expected a name that ends in .onnx or .pt, found .model.tflite' export run -o model.tflite
expect 2 'expected -o FILE.onnx, -o FILE.pt or --page FILE.html' export run
expect 2 "expected bytes, floats, unit or scaled, found 'byte'; did you mean 'bytes'" export run -o x.onnx --input byte
expect 1 'no_run.*No such file' export no_run -o x.onnx
expect 1 'nowhere/x.onnx: ' export run -o nowhere/x.onnx
mkdir empty
expect 1 'empty/best.safetensors' export empty -o x.onnx
[ ! -e x.onnx ] || fail 'a refused export left a file'

# A checkpoint that is cut off.
cp -r run damaged
head -c 2000 run/best.safetensors > damaged/best.safetensors
expect 1 'damaged/best.safetensors' export damaged -o x.onnx
# What stood there before is untouched.
cp model.onnx before.onnx
expect 1 'damaged' export damaged -o model.onnx
cmp -s model.onnx before.onnx || fail 'a failed export touched the old file'

if [ -n "$python" ]; then
  "$python" - <<'END' || fail 'Python'
import json, torch
extra = {"facts.json": ""}
net = torch.jit.load("model.pt", _extra_files=extra)
facts = json.loads(extra["facts.json"])
assert facts["layer"] == "ZCA(1e-5)" and facts["data"] == "synthetic" and facts["input"] == "bytes", facts
torch.manual_seed(1)
images = torch.randint(0, 256, (7, 1, 28, 28), dtype=torch.uint8)
logits = net(images)
assert logits.shape == (7, 10) and torch.isfinite(logits).all()
try:
    import onnxruntime
except ImportError:
    print("no onnxruntime in Python here")
else:
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(["logits"], {"images": images.numpy()})
    assert abs(torch.from_numpy(found) - logits).max() < 1e-4
    assert session.get_modelmeta().custom_metadata_map["layer"] == "ZCA(1e-5)"
END
fi
[ "$failures" -eq 0 ]
