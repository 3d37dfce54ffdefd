"""Calls of every operator with one argument made wrong. Each must return or raise: run by test_hostile.py in a process
of its own, which prints a call before it makes it."""

import random
import sys

import torch

import orthobatch  # noqa: F401: registers the operators

ops = torch.ops.orthobatch


def tensor(*sizes):
    return torch.randn(*sizes, dtype=random.choice([torch.float32, torch.float64]))


def wrong_tensor(like):
    """Another tensor in the place of one."""
    sizes = list(like.shape)
    if sizes:
        sizes[random.randrange(len(sizes))] = random.choice([0, 1, 2, 3, 7])
    return random.choice(
        [
            lambda: None,
            lambda: torch.empty(0),
            lambda: torch.zeros(sizes, dtype=like.dtype),
            lambda: like.flatten()[: max(1, like.numel() // 2)].clone(),
            lambda: like.unsqueeze(0),
            lambda: like.to(torch.float64 if like.dtype == torch.float32 else torch.float32),
            lambda: like.to(torch.bfloat16),
            lambda: like.to(torch.int64),
            lambda: like.to(torch.complex64),
            lambda: like.to("meta"),
            lambda: like.to_sparse(),
            lambda: torch.full_like(like, float("nan")) if like.is_floating_point() else like,
            lambda: like.expand(3, *like.shape),
            lambda: torch.as_strided(like, like.shape, [0] * like.dim()),
        ]
    )()


def wrong(value):
    if isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_meta:
        return wrong_tensor(value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return random.choice([-1, 0, 1, 2, 3, 2**31, 2**62, 2**63 - 1, -(2**63)])
    if isinstance(value, float):
        return random.choice([-1.0, 0.0, 2.0, float("nan"), float("inf")])
    if isinstance(value, str):
        text = value.replace(str(random.choice([4, 6, 2])), str(random.choice([0, -1, 3, 10**9, 10**30])))
        return random.choice([text, value[: random.randrange(len(value) + 1)], "", value + "x", "\0", value.upper()])
    if isinstance(value, list) and value:
        k = random.randrange(len(value))
        changed = [*value[:k], wrong(value[k]), *value[k + 1 :]]
        return random.choice([changed, value[:k], value + value, []])
    return random.choice([None, 0, torch.zeros(2)])


def calls():
    """A valid call of each operator: the name and its arguments."""
    spec = random.choice(["ZCA(1e-5)", "ZCA(0,inf,group_size=4)", "BN", "LDL(1e-5)->W->Gamma", "PLDLP(0)", "ZCAM(1e-5)"])
    dtype = random.choice([torch.float32, torch.float64])
    text = ops.layer(2, 6, spec, random.choice([1, 2]), False, 0, "")
    x = torch.randn(4, 6, 5, 5, dtype=dtype)
    scale, shift = torch.rand(6, dtype=dtype), torch.randn(6, dtype=dtype)
    skew = torch.randn(15, dtype=dtype) if "->W" in spec else None
    layer = [x, scale, shift, skew]
    conv = [None, torch.randn(8, 3, 3, 3, dtype=dtype), torch.randn(8, dtype=dtype), [2, 1, 1, 1, 1, 1, 1, 1, 1, 1]]
    linear = [None, torch.randn(3, 6 * 25, dtype=dtype), torch.randn(3, dtype=dtype), []]
    consumer = random.choice([[None, None, None, []], conv, linear])
    output, tape = ops.train(*layer, text, *consumer)
    mean = torch.zeros(6, dtype=dtype)
    statistic, last = ops.initial(torch.rand(6), scale, text)
    last = last if last.numel() else None
    count = torch.tensor(0)
    wanted = [t is not None for t in [*layer, *consumer[:3]]]
    grad = torch.randn_like(output)
    statistics = random.choice([[tape], [tape.clone()], [t for t in (mean, statistic, last) if t is not None]])
    the_map = ops.average_map(scale, shift, skew, mean, statistic, last, text)
    return {
        "train": [*layer, text, *consumer],
        "evaluate": [*layer, mean, statistic, last, text, *consumer],
        "backward": [grad, *layer, statistics, text, *consumer, wanted],
        "track_": [mean, statistic, last, count, scale, tape, random.choice([None, 0.1]), text],
        "step_": [*layer, mean, statistic, last, count, 0.1, text, *consumer],
        "conditioned": [random.choice([tape, tape.clone()]), scale, text],
        "initial": [torch.rand(6), scale, text],
        "average_map": [scale, shift, skew, mean, statistic, last, text],
        "fold_behind": [list(the_map), torch.randn(6, 2, 3, 3), None, 2, False],
        "fold_before": [list(the_map), torch.randn(8, 3, 3, 3), torch.randn(8), 2, True],
        "fold_alone": [list(the_map)],
        "layer": [2, 6, spec, 1, False, 0, "norm"],
        "statistic_sizes": [text],
        "warning": [tape, text],
        "with_eps": [spec, 1e-3],
        "same_state": [spec, "ZCA(1e-3)"],
        "traits": [spec],
        "skew_size": [6],
        "method_arguments": ["ZCA"],
        "covariance": [x],
        "condition_number": [statistic, last],
        "effective_rank": [statistic, 1.0, last],
        "whiteness_error": [x],
    }


def main():
    random.seed(int(sys.argv[1]))
    torch.manual_seed(int(sys.argv[1]))
    torch.set_num_threads(1)
    for number in range(int(sys.argv[2])):
        if number % 8 == 0:  # they take longer to make than to be made wrong
            valid = calls()
        name = random.choice(list(valid))
        args = list(valid[name])
        for _ in range(random.choice([1, 1, 2])):
            k = random.randrange(len(args))
            args[k] = wrong(args[k])
        print(number, name, [tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in args], file=sys.stderr, flush=True)
        try:
            getattr(ops, name)(*args)
        except Exception:
            pass  # any Python exception will do


main()
