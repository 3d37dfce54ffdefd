#!/usr/bin/python3
"""Times with BatchNorm and with whitening layers in its place: a step and an evaluation of a net of torchvision, and
single layers, forward and backward.

    PYTHONPATH=build/release/python /usr/bin/python3 bench/resnet.py [--net resnet50] [--spec SPEC] [--device cuda]

Interleaved, the median of all rounds; only the ratios mean something on a machine that others use.
"""

import argparse
import copy
import functools
import statistics
import time

import torch
import torch.nn.functional as F
import torchvision

import orthobatch


def wait(device):
    """Until a device has done what it was given."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()


def interleaved(works, rounds, device):
    """Median seconds of each."""
    took = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(rounds):
        for name, work in works.items():
            wait(device)
            start = time.perf_counter()
            work()
            wait(device)
            took[name].append(time.perf_counter() - start)
    return {name: statistics.median(t) for name, t in took.items()}


def step(net, x, y):
    optimizer = torch.optim.SGD(net.parameters(), 0.01)

    def run():
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

    return run


def layer_pass(layer, x, gradient):
    def run():
        layer(x).backward(gradient)

    return run


def show(title, times):
    base = next(iter(times.values()))
    print(title)
    for name, seconds in times.items():
        print(f"  {name:34} {1000 * seconds:8.1f} ms  {seconds / base:5.2f}")


def nets(options, specs, where):
    size, device = (3, options.size, options.size), options.device
    x, y = torch.randn(options.batch, *size).to(device), (torch.arange(options.batch) % 10).to(device)
    net = getattr(torchvision.models, options.net)(num_classes=10).to(device)
    contestants = {"BatchNorm2d": net, **{spec: orthobatch.convert(copy.deepcopy(net), spec) for spec in specs}}
    steps = {name: step(one, x, y) for name, one in contestants.items()}
    title = f"{options.net}, a step, {options.batch}×3×{options.size}×{options.size}, {where}"
    show(title, interleaved(steps, options.rounds, device))
    with torch.no_grad():
        folded = orthobatch.fold(contestants[specs[0]].eval())
        contestants[f"{specs[0]}, folded"] = folded
        for batch in (options.batch, 1):
            works = {name: functools.partial(one.eval(), x[:batch]) for name, one in contestants.items()}
            show(f"evaluation of {batch}", interleaved(works, options.rounds, device))
        want = contestants[specs[0]](x)
        error = float((folded(x) - want).abs().max())
        print(f"folded against as it is: {error:.1e} at logits up to {float(want.abs().max()):.2g}")


def layers(options, specs, where):
    for batch, channels, side in ((256, 16, 28), (256, 64, 14), (32, 256, 8), (8, 2048, 4)):
        x = torch.randn(batch, channels, side, side).to(options.device, memory_format=torch.channels_last)
        x, gradient = x.requires_grad_(), torch.randn_like(x)
        made = {spec: orthobatch.BatchOrtho2d(channels, spec) for spec in specs}
        made = {"BatchNorm2d": torch.nn.BatchNorm2d(channels), **made}
        works = {name: layer_pass(one.to(options.device), x, gradient) for name, one in made.items()}
        title = f"a layer, {batch}×{channels}×{side}×{side}, {where}"
        show(title, interleaved(works, options.rounds, options.device))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--net", default="resnet18", help="of torchvision.models (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=64, help="rows and columns of an image (default: %(default)s)")
    parser.add_argument("--spec", action="append", help="the first is folded too (default: BN and three in groups)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu, cuda, xpu, mps")
    options = parser.parse_args()
    grouped = ["ZCA(1e-5, group_size=16)", "ZCAM(1e-5, c=1/10, group_size=16)", "ZCA(1e-5, group_size=64)", "BN"]
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    where = f"{options.threads} threads" if options.device.type == "cpu" else str(options.device)
    nets(options, options.spec or grouped, where)
    layers(options, options.spec or grouped, where)


if __name__ == "__main__":
    main()
