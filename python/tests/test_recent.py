"""auto_update_statistics: running statistics of the present weights when a net turns to evaluation."""

import copy
import pickle

import pytest
import torch
from torch import nn

import orthobatch


def net(spec="ZCA(1e-5)", seed=0):
    """Convolution, layer, ReLU: the convolution of one channel fills 9 of 32 directions."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, bias=False), orthobatch.BatchOrtho2d(32, spec), nn.ReLU(),
        nn.Conv2d(32, 32, 3, bias=False), orthobatch.BatchOrtho2d(32, spec), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(),
        nn.Linear(32 * 64, 10),
    )  # fmt: skip


def smooth(x):
    return nn.functional.avg_pool2d(nn.functional.avg_pool2d(x, 3, 1, 1), 3, 1, 1)


TEMPLATES = 4 * smooth(torch.randn(10, 1, 12, 12, generator=torch.Generator().manual_seed(1)))


def images(seed, count=64):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(10, (count,), generator=generator)
    return (TEMPLATES[y] + 3 * smooth(torch.randn(count, 1, 12, 12, generator=generator))).relu(), y


def train(model, steps=6):
    sgd = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    model.train()
    for step in range(steps):
        x, y = images(step)
        sgd.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        sgd.step()
    return model


def error(model):
    x, y = images(1000, 400)
    with torch.no_grad():
        return (model.eval()(x).argmax(1) != y).float().mean().item()


@pytest.mark.filterwarnings("ignore:.*less variance than eps")
def test_an_ordinary_net_evaluates_as_it_was_trained():
    plain = sum(error(train(net(seed=seed))) for seed in range(3))
    ours = sum(error(train(orthobatch.auto_update_statistics(net(seed=seed)))) for seed in range(3))
    assert ours < 0.3
    assert plain > 1.5 * ours  # what it is there for


@pytest.mark.filterwarnings("ignore:.*less variance than eps")
def test_it_is_update_statistics_of_the_last_inputs_once():
    model = train(orthobatch.auto_update_statistics(net(), batches=3))
    other = orthobatch.auto_update_statistics(copy.deepcopy(model), 0)
    assert orthobatch.update_statistics(other, [images(step)[0] for step in (3, 4, 5)]) == 3
    generator = torch.get_rng_state()
    x = images(5)[0]
    assert torch.equal(model.eval()(x), other.eval()(x))
    assert torch.equal(torch.get_rng_state(), generator)
    assert not model.training and not model[1].training
    before = model[1].running_cov.clone()
    model(images(6)[0])
    assert torch.equal(model[1].running_cov, before)
    model.train()
    with torch.no_grad():
        model(x)  # of no step: not remembered, though it moves the average
    model.eval()(x)
    assert not torch.equal(model[1].running_cov, before)


def test_the_memory_is_not_copied():
    model = orthobatch.auto_update_statistics(net("ZCAM(1e-5,c=1/10)"))
    x = images(1)[0]
    model(x)
    x.zero_()  # a buffer that is used again
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        (hook,) = twin._forward_pre_hooks.values()
        assert len(hook.calls) == 0 and hook.calls.maxlen == 4
        assert twin.eval()(x).shape == (64, 10)
    model.eval()(x)
    assert model[1].running_mean.abs().max() > 0
    assert not orthobatch.auto_update_statistics(model, 0)._forward_pre_hooks
    with pytest.raises(ValueError, match="expected 0 batches or more, got -1"):
        orthobatch.auto_update_statistics(model, -1)


def test_several_inputs_and_autocast():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = orthobatch.BatchOrtho2d(4)
            self.kept = []

        def forward(self, a, scale, *, b=None):
            z = self.norm(a * scale)
            self.kept.append(torch.is_autocast_cpu_enabled())
            return z if b is None else z + b

    model = orthobatch.auto_update_statistics(Pair())
    x = torch.randn(8, 4, 3, 3)
    keywords = {"b": x} if hasattr(model, "_forward_pre_hooks_with_kwargs") else {}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(x, 3.0, **keywords)
    model.eval()(x, 1.0)
    assert model.kept == [True, True, False]
    torch.testing.assert_close(model.norm.running_mean, 3 * x.mean((0, 2, 3)))


def test_dict_batches():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = orthobatch.BatchOrtho2d(4)

        def forward(self, image, label=None):
            return self.norm(image)

    x = torch.randn(8, 4, 3, 3)
    model = Net()
    assert orthobatch.update_statistics(model, [{"image": x, "label": 1}]) == 1
    torch.testing.assert_close(model.norm.running_mean, x.mean((0, 2, 3)))
