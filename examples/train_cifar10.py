#!/usr/bin/python3
"""ResNet-20 on CIFAR-10 with BatchNorm2d or a whitening layer in its place.

    orthobatch data get cifar10
    PYTHONPATH=build/release/python /usr/bin/python3 examples/train_cifar10.py --norm batchnorm --out bn.jsonl
    … --norm 'ZCAM(1e-5, c=1/10, group_size=16)' --out zcam.jsonl
    … --plot resnet20.png bn.jsonl zcam.jsonl

One cycle of SGD, crops and flips. Each epoch is a line of JSON in OUT: test error with the running statistics and with
fresh ones of 5,000 training images, and the processor's seconds of training so far. The same command goes on where it
stopped. OMP_NUM_THREADS sets the number of threads. --plot draws the test error with running statistics against
processor time: a line for each layer, the mean over its seeds, and a dot for each seed.
"""

import argparse
import copy
import json
import os
import time
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models.resnet import BasicBlock

import orthobatch

BATCH = 128


def cifar10(folder, names):
    """Images of 3 × 32 × 32 in −1 … 1, and labels, of the files of the binary version."""
    records = numpy.concatenate([numpy.fromfile(folder / f"{n}.bin", numpy.uint8).reshape(-1, 3073) for n in names])
    images = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32)).float().div(127.5).sub(1)
    return images.contiguous(memory_format=torch.channels_last), torch.from_numpy(records[:, 0].astype(numpy.int64))


def resnet20(norm):
    """16, 32 and 64 channels, three blocks of each: convolution, layer, ReLU."""
    layers, inputs = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
    for channels in (16, 32, 64):
        for block in range(3):
            stride = 2 if block == 0 and channels > 16 else 1
            shortcut = nn.Sequential(nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))
            layers.append(BasicBlock(inputs, channels, stride, shortcut if stride > 1 else None))
            inputs = channels
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return net if norm == "batchnorm" else orthobatch.convert(net, norm)


def augmented(x):
    """Each image at a place of its own within four pixels, every other one mirrored."""
    padded, n = F.pad(x, (4, 4, 4, 4)), x.size(0)
    row, column = torch.randint(9, (n, 1)) + torch.arange(32), torch.randint(9, (n, 1)) + torch.arange(32)
    column = torch.where(torch.rand(n, 1) < 0.5, column, column.flip(1))
    picked = padded.permute(0, 2, 3, 1)[torch.arange(n)[:, None, None], row[:, :, None], column[:, None, :]]
    return picked.permute(0, 3, 1, 2)


@torch.no_grad()
def test_error(net, images, labels):
    net.eval()
    wrong = sum(int((net(x).argmax(1) != y).sum()) for x, y in zip(images.split(500), labels.split(500)))
    return 100 * wrong / len(labels)


def with_fresh_statistics(net, images):
    net, batches = copy.deepcopy(net), images[:5000].split(500)
    torch.optim.swa_utils.update_bn(batches, net)
    orthobatch.update_statistics(net, batches)
    return net


def train_epoch(net, optimizer, schedule, images, labels):
    net.train()
    losses = []
    for chosen in torch.randperm(len(labels)).split(BATCH)[: len(labels) // BATCH]:
        loss = F.cross_entropy(net(augmented(images[chosen])), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def plot(picture, files):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    runs = {}
    for file in files:
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        runs.setdefault((lines[-1]["norm"], len(lines)), []).append(lines)
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for number, ((norm, epochs), seeds) in enumerate(runs.items()):
        values = numpy.array([[(line["seconds"] / 60, line["running_error"]) for line in lines] for lines in seeds])
        label = f"{'BatchNorm2d' if norm == 'batchnorm' else norm}, {epochs} epochs, seeds: {len(seeds)}"
        axes.plot(*values.mean(0).T, "-", color=f"C{number}", label=label)
        axes.plot(*values.reshape(-1, 2).T, ".", color=f"C{number}")
    axes.set(xlabel="minutes of one core", ylabel="test error, %", title="ResNet-20 on CIFAR-10")
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    ticks = [tick for tick in (8, 10, 15, 20, 25, 30, 40, 60, 80) if low < tick < high]
    axes.set_yticks(ticks, ticks)
    axes.minorticks_off()
    axes.legend()
    figure.savefig(picture, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--norm", default="batchnorm", help="batchnorm, or a spec (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="lines of JSON; the state is beside it, in OUT.pt")
    parser.add_argument("--plot", type=Path, nargs="+", metavar=("PICTURE", "OUT"), help="draw what runs have written")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ORTHOBATCH_DATA", "~/.cache/orthobatch")))
    for name, default in {"epochs": 10, "images": 50000, "seed": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default, help="default: %(default)s")
    options = parser.parse_args()
    if options.plot:
        return plot(options.plot[0], options.plot[1:])
    if not options.out:
        parser.error("expected --out FILE or --plot PICTURE FILE…")
    torch.manual_seed(options.seed)
    folder = options.data.expanduser() / "cifar10"
    images, labels = (t[: options.images] for t in cifar10(folder, [f"data_batch_{k}" for k in range(1, 6)]))
    test = cifar10(folder, ["test_batch"])

    net = resnet20(options.norm).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), 0.2, momentum=0.9, weight_decay=5e-4, nesterov=True)
    steps = len(labels) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, epochs=options.epochs, steps_per_epoch=steps)
    parts, lines, seconds = {"net": net, "optimizer": optimizer, "schedule": schedule}, [], 0.0
    settings = {k: v for k, v in vars(options).items() if k not in ("data", "out", "plot")}
    saved = Path(f"{options.out}.pt")
    if saved.exists():
        state = torch.load(saved)
        if state["settings"] != settings:
            parser.error(f"{saved}: expected a state of {settings}, found one of {state['settings']}")
        for name, part in parts.items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["random"])
        lines, seconds = state["lines"], state["seconds"]

    for epoch in range(len(lines) + 1, options.epochs + 1):
        start = time.process_time()
        loss = train_epoch(net, optimizer, schedule, images, labels)
        seconds += time.process_time() - start
        running, fresh = test_error(net, *test), test_error(with_fresh_statistics(net, images), *test)
        result = {"epoch": epoch, "train_loss": round(loss, 4), "running_error": running, "fresh_error": fresh}
        lines.append(json.dumps({"norm": options.norm, "seed": options.seed, **result, "seconds": round(seconds, 1)}))
        print(lines[-1], flush=True)
        state = {name: part.state_dict() for name, part in parts.items()}
        state.update(settings=settings, random=torch.get_rng_state(), lines=lines, seconds=seconds)
        torch.save(state, f"{saved}.next")
        os.replace(f"{saved}.next", saved)
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
