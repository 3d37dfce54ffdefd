"""Layers on a device that is no CPU: a stand-in whose memory the host may not touch and whose transfers are counted
(tests/stand_in.cpp). Equal to the CPU, with one transfer in each direction and pass at most."""

import copy
import io
import os
import signal
import subprocess
import sys
import types

import orthobatch
import pytest
import torch
import torch.nn.functional as F
from orthobatch import BatchOrtho1d, BatchOrtho2d, FoldedConv2d, FoldedLinear
from orthobatch.functional import whiten, whitening_matrix
from specs import SPECS
from torch import nn

STAND_IN = os.environ.get("ORTHOBATCH_STAND_IN", "")
if not STAND_IN:
    pytest.skip("needs the stand-in device of a build tree", allow_module_level=True)
torch.ops.load_library(STAND_IN)
NAME = "privateuseone"
if hasattr(torch.utils, "rename_privateuse1_backend"):  # from torch 2.1 on; autograd asks for it from 2.14 on
    NAME = "stand_in"
    torch.utils.rename_privateuse1_backend(NAME)
if hasattr(torch, "_register_device_module") and not hasattr(torch, NAME):
    torch._register_device_module(NAME, types.ModuleType(f"torch.{NAME}"))
DEVICE = torch.device(f"{NAME}:0")
SPECS = [*SPECS, "ZCAM(1e-5, c=1/10, group_size=16)", "ZCA(1e-2, group_size=4)"]
TOLERANCE = {torch.float: 1e-5, torch.double: 1e-11}


class Transfers:
    """Transfers to the host and to the device within."""

    def __enter__(self):
        torch.ops.stand_in.reset()
        return self

    def __exit__(self, *_):
        self.to_host, self.to_device = torch.ops.stand_in.counts()

    def at_most_one(self):
        return self.to_host <= 1 and self.to_device <= 1

    def none(self):
        return self.to_host == self.to_device == 0


def correlated(*shape, dtype=torch.double):
    n = shape[1]
    mix = torch.eye(n) + 0.3 * torch.randn(n, n)
    return (torch.einsum("ij,bj...->bi...", mix, torch.randn(*shape)) + 0.5).to(dtype).contiguous()


def there(t, layout=torch.contiguous_format):
    return t.detach().contiguous(memory_format=layout).to(DEVICE)


def close(got, expected, tolerance):
    assert got.device == DEVICE and got.dtype == expected.dtype and got.stride() == expected.stride()
    scale = expected.double().norm().clamp(min=1e-3)
    assert float((got.detach().cpu().double() - expected.detach().double()).norm() / scale) < tolerance


def moved_parameters(module):
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.add_(0.3 * torch.randn_like(p))
    return module


def same_training(module, x, tolerance):
    """Two steps, then evaluation: outputs, gradients and state; the count of transfers in each."""
    other = copy.deepcopy(module).to(DEVICE)
    for training in (True, True, False, False):
        module.train(training)
        other.train(training)
        leaf, mine = x.detach().clone().requires_grad_(), x.detach().to(DEVICE).requires_grad_()
        z = module(leaf)
        with Transfers() as forward:
            y = other(mine)
        assert forward.at_most_one()
        close(y, z, tolerance)
        g = torch.randn_like(z)
        module.zero_grad()
        other.zero_grad()
        z.backward(g)
        h = there(g).as_strided(g.shape, g.stride()) if g.is_contiguous() else g.to(DEVICE)
        with Transfers() as backward:
            y.backward(h)
        assert backward.at_most_one()
        close(mine.grad, leaf.grad, 10 * tolerance)
        for a, b in zip(other.parameters(), module.parameters()):
            close(a.grad, b.grad, 10 * tolerance)
        for a, b in zip(other.buffers(), module.buffers()):
            close(a, b, tolerance)
        if not training:
            with Transfers() as again, torch.no_grad():
                other(mine)
            assert again.none()


def test_a_host_that_reads_the_device_ends():
    script = "import os, torch, types; torch.ops.load_library(os.environ['ORTHOBATCH_STAND_IN'])\n"
    script += "hasattr(torch, '_register_device_module') and torch._register_device_module(\n"
    script += "    'privateuseone', types.ModuleType('torch.privateuseone'))\n"
    script += "x = torch.ones(3).to('privateuseone'); print(x.sum().item(), flush=True); torch.ops.stand_in.peek(x)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "3.0\n" and done.returncode == -signal.SIGSEGV


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float, torch.double])
@pytest.mark.parametrize("spec", SPECS)
def test_layer(spec, dtype, layout):
    layer = moved_parameters(BatchOrtho2d(8, spec, dtype=dtype))
    same_training(layer, correlated(12, 8, 5, 4, dtype=dtype).contiguous(memory_format=layout), TOLERANCE[dtype])


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float, torch.double])
@pytest.mark.parametrize("spec", SPECS)
def test_folded(spec, dtype, layout):
    pair = FoldedConv2d(BatchOrtho2d(8, spec, dtype=dtype), nn.Conv2d(8, 6, 3, padding=1, dtype=dtype))
    same_training(
        moved_parameters(pair), correlated(12, 8, 5, 6, dtype=dtype).contiguous(memory_format=layout), TOLERANCE[dtype]
    )


@pytest.mark.parametrize(
    "options",
    [
        dict(padding=0, stride=2),
        dict(padding=2, dilation=2, bias=False),
        dict(padding="same", kernel_size=4),
        dict(padding=1, padding_mode="reflect"),
        dict(padding=(2, 0), groups=2),
    ],
)
def test_folded_convolutions(options):
    conv = nn.Conv2d(8, 6, **{"kernel_size": 3, **options})
    for spec in ("ZCA(1e-5, group_size=4)", "LDL(1e-5)"):
        same_training(moved_parameters(FoldedConv2d(BatchOrtho2d(8, spec), conv)), correlated(12, 8, 6, 5).float(), 1e-5)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("average", ["covariance", "transform"])
def test_options(average, momentum):
    x = correlated(6, 8, 9, 8).float()
    for spec in ("ZCA(1e-3, group_size=3)", "BN"):
        layer = BatchOrtho2d(8, spec, momentum=momentum, running_average=average, sample_stride=2)
        same_training(moved_parameters(layer), x, 1e-5)
    same_training(BatchOrtho2d(8, "ZCA(1e-3)", affine=False), x, 1e-5)
    same_training(FoldedLinear(BatchOrtho2d(8, "ZCA(1e-3)"), nn.Linear(8 * 72, 5)), x, 1e-5)
    same_training(BatchOrtho1d(8, "LDL(1e-3)"), x.flatten(2)[..., 0].repeat(8, 1) + torch.randn(48, 8), 1e-5)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("spec", ["ZCA(1e-5)", "ZCA(1e-5, group_size=16)", "BN", "ZCA(1e-5, group_size=24)"])
def test_many_samples(spec, layout):
    """More than a chunk of samples, more places than channels, means of a hundred deviations."""
    x = correlated(20, 32, 16, 16).float()
    same_training(BatchOrtho2d(32, spec), x.contiguous(memory_format=layout), 1e-5)
    x = x + 100 * torch.randn(1, 32, 1, 1)
    same_training(BatchOrtho2d(32, spec), x.contiguous(memory_format=layout), 5e-5)


def test_where_float_products_would_not_do():
    """Duplicated and constant channels, very large and small data: in double, which may take a second transfer."""
    x = correlated(16, 6, 5, 5).float()
    twice = x.clone()
    twice[:, 5] = twice[:, 0]
    constant = x.clone()
    constant[:, 2] = 0.1
    for data in (twice, constant, 1e18 * x, 1e-18 * x):
        for spec in ("ZCA(1e-5)", "ZCA(0)", "LDL(0)"):
            layer, leaf = BatchOrtho2d(6, spec), data.clone().requires_grad_()
            mine, other = there(data).requires_grad_(), BatchOrtho2d(6, spec).to(DEVICE)
            z = layer(leaf)
            g = torch.randn_like(z)
            z.backward(g)
            with Transfers() as forward:
                y = other(mine)
            assert forward.to_host <= 2 and forward.to_device == 1
            y.backward(there(g))
            close(y, z, 2e-5)
            close(mine.grad, leaf.grad, 1e-4)


def test_refusals():
    layer = BatchOrtho2d(4).to(DEVICE)
    x = torch.randn(3, 4, 2, 2)
    with pytest.raises(RuntimeError, match=f"expected input on {DEVICE}, got cpu"):
        layer(x)
    x[1, 2, 0, 1] = float("nan")
    with pytest.raises(RuntimeError, match=r"got 1 NaN and 0 infinite values, the first at \[1, 2, 0, 1\]"):
        layer(there(x))
    assert int(layer.num_batches_tracked) == 0
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        layer(there(torch.randn(1, 4, 1, 1)))


def net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.BatchNorm2d(4), nn.Flatten()
    )


def test_modules_and_tools():
    """convert, freeze, summary, update_statistics, state dicts and a step of a net, all on the device."""
    model = orthobatch.convert(net().to(DEVICE), "ZCA(1e-3, group_size=4)")
    assert all(t.device == DEVICE for t in model.state_dict().values())
    twin = orthobatch.convert(net(), "ZCA(1e-3, group_size=4)")
    twin.load_state_dict({k: v.cpu() for k, v in model.state_dict().items()})
    x = correlated(8, 3, 8, 8).float()
    close(model(there(x)), twin(x), 1e-5)
    text = str(orthobatch.summary(model))
    assert text.splitlines()[1].split()[:2] == str(orthobatch.summary(twin)).splitlines()[1].split()[:2]
    for m, data in ((model, there(x)), (twin, x)):
        orthobatch.update_statistics(m, [data, data])
        orthobatch.freeze(m)
        m.train()
    before = [b.cpu() for b in model.buffers()]
    close(model(there(x)), twin(x), 1e-5)
    assert all(torch.equal(a, b.cpu()) for a, b in zip(before, model.buffers()))
    stored = io.BytesIO()
    torch.save({k: v.cpu() for k, v in model.state_dict().items()}, stored)
    stored.seek(0)
    again = orthobatch.convert(net(), "ZCA(1e-3, group_size=4)").to(DEVICE)
    again.load_state_dict(torch.load(stored))
    model.eval(), again.eval()
    assert torch.equal(model(there(x)).cpu(), again(there(x)).cpu())
    assert model[1].to("cpu").running_cov.dtype == torch.double


def test_statistics_that_change_are_seen():
    layer = BatchOrtho2d(4, "ZCA(1e-3)").to(DEVICE).eval()
    x = there(correlated(4, 4, 3, 3).float())
    first = layer(x).cpu()
    with torch.no_grad():
        layer.weight.mul_(2)
    torch.testing.assert_close(layer(x).cpu(), 2 * first)
    with torch.no_grad():
        layer.running_mean.add_(1)
    with Transfers() as anew:
        moved = layer(x)
    assert anew.at_most_one() and not torch.allclose(moved.cpu(), 2 * first)


def test_functions():
    for spec in ("ZCA(1e-3)", "LDL(1e-3)", "ZCA(1e-3, group_size=2)"):
        x = correlated(40, 6)
        mine = there(x).requires_grad_()
        with Transfers() as forward:
            z = whiten(mine, spec)
        assert forward.at_most_one()
        close(z, whiten(x, spec), 1e-10)
        z.sum().backward()
        assert all(t.device == DEVICE for t in whiten(mine, spec, return_map=True))
        sigma = torch.cov(x.t()).repeat(3, 1, 1)
        theirs = there(sigma)
        with Transfers() as forward:
            T = whitening_matrix(theirs, spec)
        assert forward.at_most_one()
        close(T, whitening_matrix(sigma, spec), 1e-10)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.half])
def test_half_precision(dtype):
    x = correlated(8, 6, 5, 5).to(dtype)
    layer = moved_parameters(BatchOrtho2d(6, "ZCA(1e-3, group_size=3)"))
    other = copy.deepcopy(layer).to(DEVICE)
    y, z = other(there(x)), layer(x)
    close(y, z, 1e-3)
    layer.eval(), other.eval()
    close(other(there(x)), layer(x), 1e-3)


WITHOUT_DOUBLE = """
import os, sys, warnings, torch
sys.path.insert(0, os.environ["TESTS"])
warnings.simplefilter("always")
import test_device as t
with warnings.catch_warnings(record=True) as said:
    layer = t.BatchOrtho2d(8, "ZCA(1e-2, group_size=4)")
    other = t.BatchOrtho2d(8, "ZCA(1e-2, group_size=4)").to(t.DEVICE)
    made = t.BatchOrtho2d(8, "ZCA(1e-2)", device=t.DEVICE)
    assert other.running_cov.dtype == made.running_cov.dtype == torch.float
    x = t.correlated(12, 8, 5, 5).float()
    for training in (True, False):
        layer.train(training), other.train(training), made.train(training)
        mine = t.there(x).requires_grad_()
        with t.Transfers() as forward:
            y = other(mine)
        assert forward.at_most_one()
        t.close(y, layer(x), 1e-5)
        y.sum().backward()
        made(mine)
    pair = t.FoldedConv2d(layer, torch.nn.Conv2d(8, 4, 3, padding=1))
    expected = pair.train()(x)
    t.close(pair.to(t.DEVICE)(t.there(x)), expected, 1e-5)
    back = other.to("cpu")
assert back.running_cov.dtype == torch.double
assert sum("has no double" in str(w.message) for w in said) == 1, [str(w.message) for w in said]
print("fine")
"""


def test_a_device_without_double():
    environment = {**os.environ, "STAND_IN_DOUBLE": "0", "TESTS": os.path.dirname(__file__)}
    done = subprocess.run([sys.executable, "-c", WITHOUT_DOUBLE], capture_output=True, text=True, env=environment)
    assert done.stdout == "fine\n", done.stderr
