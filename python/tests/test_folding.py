"""Folding, in training and for inference, and exporting what was folded."""

import copy
import importlib.util
import io
import pickle
import subprocess
import sys

import orthobatch
import pytest
import torch
from nets import TORCH2, resnet, trained
from orthobatch import BatchOrtho1d, BatchOrtho2d, BatchOrtho3d, FoldedConv1d, FoldedConv2d, FoldedConv3d, FoldedLinear
from specs import SPECS
from torch import nn

CONVOLUTIONS = [
    dict(padding=1),
    dict(padding=0, stride=2),
    dict(padding=2, dilation=2, bias=False),
    dict(padding="same", kernel_size=4),
    dict(padding=1, padding_mode="reflect"),
    dict(padding=1, padding_mode="circular"),
    dict(padding=(2, 0), groups=2),
]


def pair_of(spec, options, dtype=torch.double):
    options = dict(options)
    norm = BatchOrtho2d(4, spec, dtype=dtype)
    conv = nn.Conv2d(4, 6, options.pop("kernel_size", 3), dtype=dtype, **options)
    with torch.no_grad():
        norm.bias.uniform_(-1, 1)
        if norm.weight is not None:
            norm.weight.uniform_(0.5, 2)
        if norm.skew is not None:
            norm.skew.uniform_(-1, 1)
    return norm, conv


def compare(a, b, x, tolerance):
    """Output, gradients and state of two ways to compute the same."""
    results = []
    for module in (a, b):
        x = x.detach().requires_grad_()
        y = module(x)
        (y**3).sum().backward()
        named = dict(module.named_parameters())
        grads = [
            named[k].grad
            for k in sorted(named, key=lambda k: k.replace("norm", "0").replace("conv", "1").replace("linear", "1"))
        ]
        results.append([y.detach(), x.grad, *grads, *module.buffers()])
    for s, t in zip(*results):
        scale = t.double().abs().max().clamp(min=1e-3)
        assert float((s - t).double().abs().max() / scale) < tolerance


@pytest.mark.parametrize("options", CONVOLUTIONS)
@pytest.mark.parametrize("spec", ["ZCA(1e-5)", "ZCA(1e-5, group_size=2)", "LDL(1e-5)->W->Gamma", "BN"])
def test_folded_convolution(spec, options):
    norm, conv = pair_of(spec, options)
    pair = FoldedConv2d(copy.deepcopy(norm), copy.deepcopy(conv))
    x = torch.randn(5, 4, 7, 8, dtype=torch.double) + 0.5
    compare(pair, nn.Sequential(norm, conv), x, 1e-9)
    pair.eval()
    norm.eval()
    compare(pair, nn.Sequential(norm, conv), x, 1e-9)
    assert torch.allclose(orthobatch.fold(pair)(x), conv(norm(x)), atol=1e-9)


@pytest.mark.parametrize("spec", SPECS)
def test_folded_gradients(spec):
    norm, conv = pair_of(spec, dict(padding=1))
    pair = FoldedConv2d(norm, conv)
    x = (torch.randn(4, 4, 3, 3, dtype=torch.double) + 0.5).requires_grad_()
    out = lambda x, w, b: torch.ops.orthobatch.train(  # noqa: E731
        x, norm.weight, norm.bias, norm.skew, norm._text, None, w, b, pair._consumer
    )[0]
    assert torch.autograd.gradcheck(out, (x, conv.weight, conv.bias))


@pytest.mark.parametrize("options", CONVOLUTIONS)
def test_batches_that_do_not_fold(options):
    """A mean far from 0 in float: the step goes through one and then the other, and is counted."""
    norm, conv = pair_of("ZCA(1e-5)", options, torch.float)
    pair = FoldedConv2d(copy.deepcopy(norm), copy.deepcopy(conv))
    x = torch.randn(5, 4, 7, 8) + 300
    compare(pair, nn.Sequential(norm, conv), x, 2e-2)
    assert pair.norm.unfolded == 1
    assert orthobatch.summary(pair)[0].unfolded == 1


def test_other_pairs():
    x = torch.randn(6, 4, 9, dtype=torch.double)
    norm, conv = BatchOrtho1d(4, "ZCA(1e-5)").double(), nn.Conv1d(4, 5, 3, padding=1).double()
    compare(FoldedConv1d(copy.deepcopy(norm), copy.deepcopy(conv)), nn.Sequential(norm, conv), x, 1e-9)
    norm, linear = BatchOrtho1d(4, "LDL(1e-5)").double(), nn.Linear(36, 5).double()
    compare(
        FoldedLinear(copy.deepcopy(norm), copy.deepcopy(linear)), nn.Sequential(norm, nn.Flatten(), linear), x, 1e-9
    )
    norm, conv = BatchOrtho3d(4, "ZCA(1e-5)").double(), nn.Conv3d(4, 5, 2, padding=1).double()
    compare(
        FoldedConv3d(copy.deepcopy(norm), copy.deepcopy(conv)), nn.Sequential(norm, conv),
        torch.randn(5, 4, 3, 3, 3, dtype=torch.double), 1e-9,
    )  # fmt: skip
    with pytest.raises(ValueError, match="reads the 4 channels of the norm, got one of 5"):
        FoldedConv2d(BatchOrtho2d(4), nn.Conv2d(5, 4, 1))
    with pytest.raises(ValueError, match="expected a BatchOrtho2d and a Conv2d without hooks, got BatchOrtho1d"):
        FoldedConv2d(BatchOrtho1d(4), nn.Conv2d(4, 4, 1))


class PreActivation(nn.Module):
    """norm → conv, as the paper's nets have it, with a branch and a functional flatten."""

    def __init__(self, spec):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3)
        self.norm1 = BatchOrtho2d(8, spec)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1)
        self.norm2 = BatchOrtho2d(8, spec)
        self.norm3 = BatchOrtho2d(8, spec)
        self.fc = nn.Linear(8 * 36, 10)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(self.norm1(x)))
        y = self.norm2(x)
        x = torch.relu(y) + y  # read twice: no pair
        return self.fc(torch.flatten(self.norm3(x), 1))


@pytest.mark.parametrize("spec", ["ZCA(1e-5)", "ZCA(1e-5, group_size=4)", "LDL(1e-5)->W"])
def test_fold_training(spec, caplog):
    model = PreActivation(spec).double()
    parameters = set(model.parameters())
    other = copy.deepcopy(model)
    before, keys = dict(model.named_modules()), list(model.state_dict())
    with caplog.at_level("INFO", "orthobatch"):
        folded = orthobatch.fold_training(model)
    assert "2 pairs joined: norm1 and conv2, norm3 and fc" in caplog.text
    assert isinstance(folded.conv2, FoldedConv2d) and isinstance(folded.fc, FoldedLinear)
    assert set(folded.parameters()) == parameters
    x = torch.randn(12, 3, 8, 8, dtype=torch.double)
    a, b = folded(x), other(x)
    assert torch.allclose(a, b, atol=1e-9)
    a.square().sum().backward()
    b.square().sum().backward()
    assert torch.allclose(folded.conv1.weight.grad, other.conv1.weight.grad, atol=1e-9)
    folded.eval()
    other.eval()
    assert torch.allclose(folded(x), other(x), atol=1e-9)
    for net in (folded, other):
        plain = orthobatch.fold(net)
        assert not any("orthobatch" in type(m).__module__ for m in plain.modules())
        assert torch.allclose(plain(x), other(x), atol=1e-9)
    scripted = torch.jit.script(folded)
    assert torch.allclose(scripted(x), other(x), atol=1e-9)
    assert orthobatch.unfold_training(folded) is folded and dict(folded.named_modules()) == before
    assert list(folded.state_dict()) == keys and torch.allclose(folded(x), other(x), atol=1e-9)


def test_states_from_before_fold_training_load():
    def net(seed):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.ReLU(), BatchOrtho2d(8), nn.Conv2d(8, 6, 3, padding=1), nn.ReLU(), BatchOrtho2d(6), nn.Flatten(),
            nn.Linear(6 * 25, 3),
        )  # fmt: skip

    x = torch.randn(9, 8, 5, 5)
    unfolded = net(1)
    unfolded(x)
    state = unfolded.state_dict()
    for outer in (lambda m: m, lambda m: nn.Sequential(m)):  # alone, and in another net
        folded = orthobatch.fold_training(net(2))
        for twin in (folded, copy.deepcopy(folded), pickle.loads(pickle.dumps(folded))):
            model = outer(twin)
            model.load_state_dict(outer(unfolded).state_dict())
            assert torch.allclose(model.eval()(x), unfolded.eval()(x), atol=1e-5)
            model.load_state_dict(model.state_dict())  # of its own too
    assert set(state) == set(net(3).state_dict())  # what was given stays as it was
    other = net(4)
    other.load_state_dict(orthobatch.unfold_training(folded).state_dict())
    assert torch.equal(other.eval()(x), unfolded(x))
    wrong = nn.Sequential(nn.ReLU(), BatchOrtho2d(8, "LDL(1e-5)"), nn.Conv2d(8, 6, 3))
    with pytest.raises(RuntimeError, match="expected a state of ZCAM.*, got one of LDL"):
        orthobatch.fold_training(nn.Sequential(*net(5)[:3])).load_state_dict(wrong.state_dict())


class Branching(nn.Module):
    """What torch.fx cannot trace."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), BatchOrtho2d(4), nn.Conv2d(4, 4, 3))
        self.head = BatchOrtho2d(4)

    def forward(self, x):
        if x.sum() > 0:
            x = -x
        return self.head(self.body(x))


def test_fold_without_a_trace():
    model = Branching()
    x = torch.randn(5, 3, 8, 8)
    model(x)
    model.eval()
    with pytest.warns(UserWarning, match="torch.fx cannot trace Branching"):
        folded = orthobatch.fold(model)
    assert isinstance(folded.body[1], nn.Conv2d) and isinstance(folded.head, nn.Conv2d)
    assert torch.allclose(folded(x), model(x), atol=1e-5)
    with pytest.warns(UserWarning, match="cannot trace"):
        joined = orthobatch.fold_training(copy.deepcopy(model))
    assert torch.equal(joined(x), model(x))
    joined.body = nn.Sequential(joined.body[0], FoldedConv2d(joined.body[1], joined.body[2]))
    with pytest.warns(UserWarning, match="cannot trace"):
        assert torch.allclose(orthobatch.fold(joined)(x), model(x), atol=1e-5)


def test_fold_where_sizes_are_unpacked():
    """As in ShuffleNet."""

    class Shuffle(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.norm = BatchOrtho2d(4)

        def forward(self, x):
            x = self.norm(self.conv(x))
            batch, channels, height, width = x.size()
            return x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, -1, height, width)

    model = Shuffle()
    x = torch.randn(5, 3, 8, 8)
    model(x)
    folded = orthobatch.fold(model.eval())
    assert isinstance(folded.norm, nn.Identity)
    assert torch.allclose(folded(x), model(x), atol=1e-5)


def test_fold_of_layers_used_twice():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 1)
            self.norm = BatchOrtho2d(4, "ZCA(1e-5)")

        def forward(self, x):
            return self.norm(self.conv(self.norm(self.conv(x))))

    model = Twice()
    x = torch.randn(6, 4, 5, 5)
    model(x)
    model.eval()
    assert torch.allclose(orthobatch.fold(model)(x), model(x), atol=1e-5)


class Optional(nn.Module):
    """What it does depends on an argument that is None, and on the mode; and it keeps what it saw."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.norm = BatchOrtho2d(4)
        self.conv = nn.Conv2d(4, 4, 3)
        self.later = BatchOrtho2d(4)
        self.last = nn.Conv2d(4, 4, 3)

    def forward(self, x, mask=None):
        y = self.norm(self.first(x))
        if mask is None:
            y = torch.relu(y)
        y = self.later(self.conv(y))
        self.seen = y
        z = self.last(y)
        return (z, y) if self.training else z


def test_folding_follows_the_path_that_is_taken():

    model, x = Optional(), torch.randn(6, 3, 12, 12)
    other = copy.deepcopy(model)
    for mode in (False, True):
        joined = orthobatch.fold_training(copy.deepcopy(model).train(mode)).train()
        assert isinstance(joined.conv, nn.Conv2d) and isinstance(joined.last, nn.Conv2d)
        for a, b in zip(joined(x), copy.deepcopy(other)(x)):
            assert torch.allclose(a, b, atol=1e-5)
    pickle.dumps(orthobatch.fold_training(copy.deepcopy(model)))
    model(x)
    del model.seen
    model.eval()
    assert torch.allclose(orthobatch.fold(model)(x), model(x), atol=1e-5)


def test_modules_with_hooks_are_left_alone():
    x = torch.randn(8, 4, 6, 6) + 1
    hooked = nn.Conv2d(4, 4, 1)
    hooked.register_forward_hook(lambda module, inputs, output: torch.relu(output))
    for reader in (nn.utils.weight_norm(nn.Conv2d(4, 4, 3)), nn.utils.spectral_norm(nn.Conv2d(4, 4, 3)), hooked):
        net = orthobatch.fold_training(nn.Sequential(nn.ReLU(), BatchOrtho2d(4), reader))
        assert isinstance(net[1], BatchOrtho2d)
        with pytest.raises(ValueError, match="without hooks"):
            FoldedConv2d(BatchOrtho2d(4), reader)
    net = nn.Sequential(hooked, BatchOrtho2d(4))
    net[1].register_forward_hook(lambda module, inputs, output: output * 2)
    net(x)
    net.eval()
    assert torch.allclose(orthobatch.fold(net)(x), net(x), atol=1e-5)


def test_fold_of_shared_convolutions_and_linear_layers():
    conv = nn.Conv2d(4, 4, 1)
    net = nn.Sequential(FoldedConv2d(BatchOrtho2d(4), conv), nn.ReLU(), conv, FoldedConv2d(BatchOrtho2d(4), conv))
    x = torch.randn(8, 4, 5, 5) * 3 + 1
    net(x)
    net.eval()
    assert torch.allclose(orthobatch.fold(net)(x), net(x), atol=1e-4)
    for shape in ((16, 7), (16, 4, 7)):  # the last of these is no channel
        net = nn.Sequential(nn.Linear(7, 4), BatchOrtho1d(4))
        x = torch.randn(*shape) * 3 + 1
        net(x)
        net.eval()
        folded = orthobatch.fold(net)
        assert torch.allclose(folded(x), net(x), atol=1e-4)
        assert isinstance(folded[1], nn.Identity) == (len(shape) == 2)


def test_joined_with_a_linear_layer():
    net = nn.Sequential(nn.ReLU(), BatchOrtho2d(4, sample_stride=2), nn.Flatten(), nn.Linear(100, 3))
    x = torch.randn(8, 4, 5, 5)
    other = copy.deepcopy(net)
    joined = orthobatch.fold_training(net)
    assert torch.allclose(joined(x), other(x), atol=1e-5)
    for wrong in (torch.randn(8, 4, 10, 10), torch.randn(8, 2, 10, 5)):
        with pytest.raises(RuntimeError):
            joined(wrong)
    with pytest.raises(RuntimeError):
        FoldedLinear(BatchOrtho2d(4), nn.Linear(100, 3), flattened=True)(torch.randn(8, 400))


def test_layers_in_two_places():
    shared = BatchOrtho2d(4)
    net = nn.Sequential(nn.Conv2d(4, 4, 1), shared, nn.ReLU(), nn.Conv2d(4, 4, 1), shared)
    x = torch.randn(8, 4, 5, 5)
    net(x)
    net.eval()
    folded = orthobatch.fold(net)
    assert not orthobatch.layers_of(folded) and folded[1] is folded[4]
    assert torch.allclose(folded(x), net(x), atol=1e-5)


@pytest.mark.parametrize("spec", ["ZCA(1e-5)", "ZCA(1e-5, group_size=2)", "LDL(1e-5)"])
def test_fold_where_the_mean_is_large(spec):
    """1e4 deviations: P x + q would lose all digits of float, (x - mean) does not."""
    x = torch.randn(64, 4, 4, 4) + 1e4
    for net in (
        nn.Sequential(BatchOrtho2d(4, spec, momentum=1), nn.Conv2d(4, 4, 1)),
        nn.Sequential(nn.Identity(), BatchOrtho2d(4, spec, momentum=1), nn.ReLU()),
        nn.Sequential(BatchOrtho2d(4, spec, momentum=1), nn.Flatten(), nn.Linear(64, 3)),
        nn.Sequential(FoldedConv2d(BatchOrtho2d(4, spec, momentum=1), nn.Conv2d(4, 4, 1))),
        nn.Sequential(FoldedLinear(BatchOrtho2d(4, spec, momentum=1), nn.Linear(64, 3))),
    ):
        net(x)
        net.eval()
        exact = copy.deepcopy(net).double()(x.double())
        assert float((orthobatch.fold(net)(x) - exact).abs().max()) < 1e-5 * float(exact.abs().max())
    one = BatchOrtho1d(4, spec, momentum=1)
    one(x[:, :, 0])
    one.eval()
    exact = copy.deepcopy(one).double()(x[:, :, 0].double())
    assert float((orthobatch.fold(one)(x[:, :, 0]) - exact).abs().max()) < 1e-5 * float(exact.abs().max())


def test_fold_behind_a_transposed_convolution():
    for groups in (1, 2):
        net = nn.Sequential(
            nn.ConvTranspose2d(6, 4, 3, 2, groups=groups), BatchOrtho2d(4, "ZCA(1e-5, group_size=2)"), nn.ReLU()
        )
        x = torch.randn(8, 6, 5, 5)
        net(x)
        net.eval()
        folded = orthobatch.fold(net)
        assert isinstance(folded[1], nn.Identity) and torch.allclose(folded(x), net(x), atol=1e-5)


def test_unfold_pairs_made_by_hand():
    x = torch.randn(8, 4, 5, 5)
    for pair in (
        FoldedConv2d(BatchOrtho2d(4), nn.Conv2d(4, 3, 3)),
        FoldedLinear(BatchOrtho2d(4), nn.Linear(100, 3)),
        FoldedLinear(BatchOrtho2d(4), nn.Linear(100, 3), flattened=True),
    ):
        x = x.flatten(1) if getattr(pair, "flattened", False) else x
        if x.dim() == 2:
            x = torch.randn(8, 100)
        want = copy.deepcopy(pair)(x) if x.dim() == 4 else None
        apart = orthobatch.unfold_training(nn.Sequential(pair))
        assert isinstance(apart[0], nn.Sequential)
        if want is not None:
            assert torch.allclose(apart(x), want, atol=1e-5)


def test_fold_needs_statistics():
    with pytest.raises(ValueError, match="expected running statistics"):
        orthobatch.fold(nn.Sequential(BatchOrtho2d(4, track_running_stats=False)))


def test_fold_of_resnet():
    model = resnet("ZCA(1e-5, group_size=16)")
    x = torch.randn(8, 3, 64, 64)
    trained(model, x)
    model.eval()
    folded = orthobatch.fold(model)
    assert type(folded) is type(model) and not orthobatch.layers_of(folded)
    with torch.no_grad():
        want = model(x)
        assert float((folded(x) - want).abs().max()) < 1e-5 * float(want.abs().max().clamp(min=1))
        traced = torch.jit.trace(folded, x)
        file = io.BytesIO()
        torch.jit.save(traced, file)
        assert b"orthobatch" not in file.getvalue()
        scripted = torch.jit.script(folded)
        assert torch.allclose(scripted(x), want, atol=1e-4)


def test_onnx(tmp_path):
    if importlib.util.find_spec("onnx") is None:
        pytest.skip("no package onnx")
    model = PreActivation("ZCA(1e-5)")
    x = torch.randn(6, 3, 8, 8)
    model(x)
    model.eval()
    path = str(tmp_path / "net.onnx")
    options = {"dynamo": False} if TORCH2 else {}
    torch.onnx.export(
        orthobatch.fold(model), x, path, input_names=["x"], output_names=["y"],
        dynamic_axes={"x": {0: "batch"}}, **options,
    )  # fmt: skip
    # By a process without torch: Debian's torch brings a libonnx of its own, and the two may not go together.
    check = "import onnx, sys; m = onnx.load(sys.argv[1]); onnx.checker.check_model(m); assert not any(n.domain for n in m.graph.node)"
    subprocess.run([sys.executable, "-c", check, path], check=True)
    if TORCH2:
        runtime = pytest.importorskip("onnxruntime")
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (y,) = session.run(None, {"x": x[:4].numpy()})
        assert torch.allclose(torch.from_numpy(y), model(x[:4]), atol=1e-4)
