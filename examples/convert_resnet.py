#!/usr/bin/python3
"""torchvision's ResNet-18 with BatchNorm against the same net converted to whitening layers.

    PYTHONPATH=build/release/python /usr/bin/python3 examples/convert_resnet.py --data mnist
    … --data svhn --folder DIR      SVHN's train_32x32.mat and test_32x32.mat

Both nets start from the same weights and see the same batches in turn, so that what else the machine does costs both
the same. At the end: a table, and a plot as PNG.
"""

import argparse
import copy
import statistics
import sys
import time
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
import torchvision

import orthobatch


def read_idx(path):
    """An idx file of bytes, as MNIST comes."""
    data = path.read_bytes()
    dimensions = data[3]
    sizes = [int.from_bytes(data[4 + 4 * k : 8 + 4 * k], "big") for k in range(dimensions)]
    values = numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * dimensions)
    if data[:3] != b"\0\0\x08" or values.size != numpy.prod(sizes):
        raise ValueError(f"{path}: expected an idx file of {sizes} bytes, got {values.size}")
    return values.reshape(sizes)


def mnist(folder):
    """Images of 3 × 32 × 32 bytes and labels, for training and for the test."""

    def part(name):
        images = torch.from_numpy(read_idx(folder / f"{name}-images-idx3-ubyte").copy())
        labels = torch.from_numpy(read_idx(folder / f"{name}-labels-idx1-ubyte").astype(numpy.int64))
        return F.pad(images, (2, 2, 2, 2)).unsqueeze(1).expand(-1, 3, -1, -1), labels

    return part("train"), part("t10k")


def svhn(folder):
    import scipy.io

    def part(name):
        content = scipy.io.loadmat(folder / f"{name}_32x32.mat")
        images = torch.from_numpy(numpy.ascontiguousarray(content["X"].transpose(3, 2, 0, 1)))
        return images, torch.from_numpy(content["y"].reshape(-1).astype(numpy.int64)) % 10

    return part("train"), part("test")


def as_input(images):
    return images.float().div(127.5).sub(1)


class Progress:
    """A bar with rate and time left on a terminal, a line for each epoch elsewhere."""

    def __init__(self, total):
        self.total, self.done, self.start = total, 0, time.monotonic()
        self.terminal = sys.stderr.isatty()

    def step(self, text):
        self.done += 1
        if not self.terminal:
            return
        rate = self.done / (time.monotonic() - self.start)
        left = int((self.total - self.done) / rate)
        bar = "█" * (30 * self.done // self.total)
        print(f"\r{bar:30} {self.done}/{self.total} steps {rate:.1f}/s, {left // 60}:{left % 60:02} left  {text}",
              end="", file=sys.stderr)  # fmt: skip

    def line(self, text):
        print(("\r\x1b[K" if self.terminal else "") + text, file=sys.stderr, flush=True)


class Racer:
    """A net in training, with what it took."""

    def __init__(self, label, net, rate, steps):
        self.label, self.net = label, net
        self.optimizer = torch.optim.SGD(net.parameters(), rate, momentum=0.9, weight_decay=5e-4)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, steps)
        self.losses, self.seconds, self.errors = [], [], []

    def step(self, x, y):
        self.net.train()
        start = time.perf_counter()
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - start)
        self.schedule.step()
        self.losses.append(loss.item())

    @torch.no_grad()
    def test(self, images, labels, batch):
        net = orthobatch.fold(self.net)  # a plain net: what one would ship
        wrong = 0
        for x, y in zip(images.split(batch), labels.split(batch)):
            wrong += int((net(as_input(x)).argmax(1) != y).sum())
        self.errors.append(100 * wrong / len(labels))


def plot(racers, epochs, path, title):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for racer, colour in zip(racers, ("tab:gray", "tab:blue")):
        width = max(1, len(racer.losses) // 60)
        smooth = numpy.convolve(racer.losses, numpy.ones(width) / width, "valid")
        left.plot(numpy.arange(len(smooth)) + width, smooth, color=colour, label=racer.label)
        right.plot(range(1, epochs + 1), racer.errors, "o-", color=colour, label=racer.label)
        right.annotate(f"{racer.errors[-1]:.2f} %", (epochs, racer.errors[-1]), xytext=(6, 0),
                       textcoords="offset points", color=colour, va="center")  # fmt: skip
    left.set(xlabel="step", ylabel="training loss", yscale="log")
    right.set(xlabel="epoch", ylabel="test error in %", xticks=range(1, epochs + 1))
    right.margins(x=0.15)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    figure.suptitle(title)
    figure.savefig(path, dpi=150)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", choices=("mnist", "svhn"), default="mnist", help="default: %(default)s")
    parser.add_argument("--folder", type=Path, help="where the data are; default: ~/.cache/orthobatch/DATA")
    parser.add_argument("--spec", default="ZCA(1e-5, group_size=16)", help="default: %(default)s")
    parser.add_argument("--images", type=int, default=20000, help="training images; default: %(default)s")
    parser.add_argument("--tests", type=int, default=10000, help="test images; default: %(default)s")
    parser.add_argument("--epochs", type=int, default=4, help="default: %(default)s")
    parser.add_argument("--batch", type=int, default=128, help="default: %(default)s")
    parser.add_argument("--rate", type=float, default=0.05, help="learning rate, falling to 0; default: %(default)s")
    parser.add_argument("--threads", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--plot", type=Path, default=Path("convert_resnet.png"), help="default: %(default)s")
    return parser.parse_args()


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    folder = options.folder or Path.home() / ".cache" / "orthobatch" / options.data
    try:
        (images, labels), (test_images, test_labels) = {"mnist": mnist, "svhn": svhn}[options.data](folder)
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"convert_resnet: {error}; `orthobatch data get mnist` fetches MNIST")
    chosen = torch.randperm(len(labels))[: options.images]
    images, labels = images[chosen], labels[chosen]
    test_images, test_labels = test_images[: options.tests], test_labels[: options.tests]

    net = torchvision.models.resnet18(num_classes=10)
    converted = orthobatch.convert(copy.deepcopy(net), options.spec)
    steps = len(labels) // options.batch * options.epochs
    racers = [Racer("BatchNorm", net, options.rate, steps), Racer(options.spec, converted, options.rate, steps)]

    progress = Progress(steps)
    for epoch in range(1, options.epochs + 1):
        order = torch.randperm(len(labels))
        for k, index in enumerate(order.split(options.batch)[: len(labels) // options.batch]):
            x, y = as_input(images[index]), labels[index]
            for racer in racers if k % 2 else racers[::-1]:
                racer.step(x, y)
            progress.step(", ".join(f"{r.label} {r.losses[-1]:.3f}" for r in racers))
        for racer in racers:
            racer.test(test_images, test_labels, 500)
        progress.line(
            f"epoch {epoch}/{options.epochs}: " + ", ".join(f"{r.label} {r.errors[-1]:.2f} %" for r in racers)
        )

    base = statistics.median(racers[0].seconds)
    print(f"\n{options.data}, {len(labels)} images, batch {options.batch}, {options.threads} threads")
    print(f"{'layers':28} {'test error':>10} {'loss of the last epoch':>23} {'ms a step':>10} {'ratio':>6}")
    for racer in racers:
        last = statistics.mean(racer.losses[-(steps // options.epochs) :])
        took = statistics.median(racer.seconds)
        print(f"{racer.label:28} {racer.errors[-1]:8.2f} % {last:23.4f} {1000 * took:10.1f} {took / base:6.2f}")
    plot(racers, options.epochs, options.plot, f"ResNet-18 on {options.data.upper()}, {len(labels)} images")
    print(f"plot: {options.plot}")


if __name__ == "__main__":
    main()
