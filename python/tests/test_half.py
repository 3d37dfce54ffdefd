"""Half and bfloat16: computed in float, returned in the type that came; folded layers in the convolution's type."""

import copy

import orthobatch
import pytest
import torch
import torch.nn.functional as F
from nets import resnet
from orthobatch import BatchOrtho2d, FoldedConv2d, FoldedLinear
from torch import nn

HALVES = [torch.bfloat16, torch.half]
SPECS = ["ZCA(1e-3)", "LDL(1e-3, group_size=3)", "BN", "ZCAE(1e-3)->W->Gamma"]


def data(*shape):
    mix = torch.eye(shape[1]) + 0.3 * torch.randn(shape[1], shape[1])
    return torch.einsum("ij,bj...->bi...", mix, torch.randn(*shape)) + 0.5


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("spec", SPECS)
def test_a_layer_is_the_float_one_rounded(spec, dtype):
    layer = BatchOrtho2d(6, spec)
    other = copy.deepcopy(layer)
    for training in (True, False):
        layer.train(training)
        other.train(training)
        x = data(9, 6, 5, 4).to(dtype).requires_grad_()
        f = x.detach().float().requires_grad_()
        z, expected = layer(x), other(f)
        assert z.dtype == dtype and torch.equal(z, expected.to(dtype))
        g = torch.randn_like(z)
        layer.zero_grad(), other.zero_grad()
        z.backward(g)
        expected.backward(g.float())
        assert x.grad.dtype == dtype and torch.equal(x.grad, f.grad.to(dtype))
        for p, q in zip(layer.parameters(), other.parameters()):
            assert p.grad.dtype == torch.float and torch.equal(p.grad, q.grad)
        for b, c in zip(layer.buffers(), other.buffers()):
            assert torch.equal(b, c)


def test_a_layer_in_half_precision():
    layer = BatchOrtho2d(6, "ZCA(1e-3)").bfloat16()
    assert layer.weight.dtype == torch.bfloat16 and layer.running_cov.dtype == torch.double
    x = data(9, 6, 5, 4).bfloat16().requires_grad_()
    layer(x).square().sum().backward()
    assert layer.weight.grad.dtype == x.grad.dtype == torch.bfloat16
    assert layer.eval()(x).dtype == torch.bfloat16
    with pytest.raises(RuntimeError, match="expected input of the layer's type Half, got BFloat16"):
        layer.half()(x)


@pytest.mark.parametrize("folded", ["conv", "linear"])
@pytest.mark.parametrize("training", [True, False])
def test_folded_under_autocast(folded, training):
    norm = BatchOrtho2d(6, "ZCA(1e-3)")
    if folded == "conv":
        pair = FoldedConv2d(norm, nn.Conv2d(6, 8, 3, padding=1))
        plain = lambda x: pair.conv(norm(x))  # noqa: E731
    else:
        pair = FoldedLinear(norm, nn.Linear(6 * 25, 8))
        plain = lambda x: pair.linear(norm(x).flatten(1))  # noqa: E731
    pair(data(9, 6, 5, 5))
    pair.train(training)
    for dtype in (torch.float, torch.bfloat16):
        x, grads = (data(9, 6, 5, 5) - 0.5).to(dtype), []
        for way in (pair, plain):
            leaf = x.clone().requires_grad_()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = way(leaf)
            assert y.dtype == torch.bfloat16
            pair.zero_grad()
            y.float().pow(2).mean().backward()
            assert leaf.grad.dtype == dtype
            grads.append([y.float(), leaf.grad.float(), *(p.grad for p in pair.parameters())])
            assert all(p.grad.dtype == torch.float for p in pair.parameters())
        for a, b in zip(*grads):
            assert float((a - b).norm()) < 0.03 * float(b.norm())
    assert norm.unfolded == 0


def test_half_precision_without_autocast_folds_too():
    pair = FoldedConv2d(BatchOrtho2d(6, "ZCA(1e-3)"), nn.Conv2d(6, 8, 3).bfloat16())
    x = (data(9, 6, 5, 5) - 0.5).bfloat16().requires_grad_()
    y = pair(x)
    y.float().pow(2).mean().backward()
    expected = pair.conv(pair.norm(x))
    assert y.dtype == torch.bfloat16 and pair.conv.weight.grad.dtype == torch.bfloat16
    assert float((y - expected).float().norm()) < 0.03 * float(expected.float().norm())


def test_a_net_learns():
    """A few steps of a small net in bfloat16, as in float."""
    losses = {}
    images, labels = data(64, 3, 8, 8), torch.arange(64) % 4
    for dtype in (torch.float, torch.bfloat16):
        torch.manual_seed(1)
        net = nn.Sequential(
            nn.Conv2d(3, 16, 3), BatchOrtho2d(16, "ZCA(1e-3)"), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 4)
        ).to(dtype)
        net[1].float()
        optimizer = torch.optim.SGD(net.parameters(), 0.02)
        for _ in range(20):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(images.to(dtype)).float(), labels)
            loss.backward()
            optimizer.step()
        losses[dtype] = float(loss)
    assert losses[torch.float] < 1 and abs(losses[torch.bfloat16] - losses[torch.float]) < 0.1 + losses[torch.float]
