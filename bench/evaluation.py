#!/usr/bin/python3
"""Test errors of small ordinary nets that evaluate with running statistics: BatchNorm and layers in its place.

    orthobatch data get mnist && orthobatch data get cifar10
    PYTHONPATH=build/release/python /usr/bin/python3 bench/evaluation.py --net cnn --norm batchnorm --norm 'ZCAE(1e-5)'

Nets: `cnn`, three 3×3 convolutions on MNIST, each followed by the layer and ReLU; `cnn-paper`, ReLU first; `resnet18`,
torchvision's, on CIFAR-10. 10,000 images; each line of JSON has, after each epoch, the test error in % with the
running statistics, with those of the last four training batches (auto_update_statistics), and with fresh ones of all
images. docs/choosing.md has the table.
"""

import argparse
import copy
import gzip
import json
import os
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
import torchvision
from torch import nn

import orthobatch

IMAGES, BATCH = 10000, 128


def mnist(folder, part, count):
    def values(name, skip):
        path = folder / f"{part}-{name}"
        raw = path.read_bytes() if path.exists() else gzip.decompress(path.with_suffix(".gz").read_bytes())
        return torch.from_numpy(numpy.frombuffer(raw, numpy.uint8, offset=skip).copy())

    x = values("images-idx3-ubyte", 16).view(-1, 1, 28, 28)[:count].float()
    return x.div(127.5).sub(1), values("labels-idx1-ubyte", 8)[:count].long()


def cifar10(folder, name):
    records = torch.from_numpy(numpy.fromfile(folder / f"{name}.bin", numpy.uint8).reshape(-1, 3073))
    return records[:, 1:].reshape(-1, 3, 32, 32).float().div(127.5).sub(1), records[:, 0].long()


def cnn(relu_first):
    parts, inputs = [], 1
    for channels in (32, 64, 128):
        norm = [nn.BatchNorm2d(channels), nn.ReLU()]
        parts += [nn.Conv2d(inputs, channels, 3, padding=1, bias=False), *(reversed(norm) if relu_first else norm)]
        parts += [nn.MaxPool2d(2)] if channels < 128 else []
        inputs = channels
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def with_norm(net, norm):
    return net if norm == "batchnorm" else orthobatch.convert(net, norm)


@torch.no_grad()
def error(net, images, labels):
    net.eval()
    wrong = sum(int((net(x).argmax(1) != y).sum()) for x, y in zip(images.split(500), labels.split(500)))
    return round(100 * wrong / len(labels), 2)


def fresh_error(net, batches, test):
    net = copy.deepcopy(net)
    torch.optim.swa_utils.update_bn(batches, net)
    if orthobatch.layers_of(net):
        orthobatch.update_statistics(net, batches)
    return error(net, *test)


def train(net, train_set, test_set, options):
    images, labels = train_set
    optimizer = torch.optim.SGD(net.parameters(), options.rate, momentum=0.9)
    steps = options.epochs * (len(labels) // BATCH)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps) if options.falling else None
    found = {"running": [], "recent": [], "fresh": []}
    for _ in range(options.epochs):
        net.train()
        recent = []
        for chosen in torch.randperm(len(labels)).split(BATCH)[: len(labels) // BATCH]:
            x = images[chosen]
            optimizer.zero_grad()
            F.cross_entropy(net(x), labels[chosen]).backward()
            optimizer.step()
            if falling:
                falling.step()
            recent = [*recent[-3:], x]
        found["running"].append(error(net, *test_set))
        found["recent"].append(fresh_error(net, recent, test_set))
        found["fresh"].append(fresh_error(net, images.split(500), test_set))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--net", choices=["cnn", "cnn-paper", "resnet18"], default="cnn")
    parser.add_argument("--norm", action="append", help="batchnorm or a spec; may be given again", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="default: 2, resnet18 3")
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--falling", action="store_true", help="a learning rate that falls to 0 along a cosine")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ORTHOBATCH_DATA", "~/.cache/orthobatch")))
    options = parser.parse_args()
    options.epochs = options.epochs or (3 if options.net == "resnet18" else 2)
    torch.set_num_threads(1)
    data = options.data.expanduser()
    if options.net == "resnet18":
        sets = cifar10(data / "cifar10", "data_batch_1"), cifar10(data / "cifar10", "test_batch")
    else:
        sets = mnist(data / "mnist", "train", IMAGES), mnist(data / "mnist", "t10k", None)
    for seed in range(1, options.seeds + 1):
        for norm in options.norm:
            torch.manual_seed(seed)
            net = torchvision.models.resnet18(num_classes=10) if options.net == "resnet18" else cnn("paper" in options.net)
            found = train(with_norm(net, norm).to(memory_format=torch.channels_last), *sets, options)
            settings = {"net": options.net, "falling": options.falling, "norm": norm, "seed": seed}
            print(json.dumps({**settings, **found}), flush=True)


if __name__ == "__main__":
    main()
