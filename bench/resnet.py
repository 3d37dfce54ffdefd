#!/usr/bin/python3
"""Times of torchvision's ResNet-18: a step with BatchNorm and with whitening layers, and inference when folded.

    PYTHONPATH=build/release/python /usr/bin/python3 bench/resnet.py [--spec SPEC] [--threads N] [--device cuda]

Interleaved, the median of all rounds; only the ratios mean something on a machine that others use.
"""

import argparse
import copy
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


def show(title, times):
    base = next(iter(times.values()))
    print(title)
    for name, seconds in times.items():
        print(f"  {name:28} {1000 * seconds:8.1f} ms  {seconds / base:5.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--spec", action="append", help="default: BN and ZCA(1e-5) in groups of 16 and 64")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu, cuda, xpu, mps")
    options = parser.parse_args()
    specs = options.spec or ["BN", "ZCA(1e-5, group_size=16)", "ZCA(1e-5, group_size=64)"]
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    device = options.device
    x, y = torch.randn(32, 3, 64, 64).to(device), (torch.arange(32) % 10).to(device)
    net = torchvision.models.resnet18(num_classes=10).to(device)
    where = f"{options.threads} threads" if device.type == "cpu" else str(device)
    nets = {"BatchNorm2d": net}
    for spec in specs:
        nets[spec] = orthobatch.convert(copy.deepcopy(net), spec)
    show(
        f"a step, 32×3×64×64, {where}",
        interleaved({k: step(m, x, y) for k, m in nets.items()}, options.rounds, device),
    )

    chosen = specs[-1 if len(specs) == 1 else 1]
    for m in nets.values():
        m.eval()
    with torch.no_grad():
        folded = orthobatch.fold(nets[chosen])
        works = {
            "BatchNorm2d": lambda: net(x),
            f"{chosen}, as it is": lambda: nets[chosen](x),
            f"{chosen}, folded": lambda: folded(x),
        }
        show(f"evaluation, 32×3×64×64, {where}", interleaved(works, options.rounds, device))
        want = nets[chosen](x)
        print(
            f"folded against as it is: {float((folded(x) - want).abs().max()):.1e} at logits up to {float(want.abs().max()):.2g}"
        )


if __name__ == "__main__":
    main()
