"""The layers themselves: gradients, state, messages."""

import copy
import io
import pickle
import warnings

import orthobatch
import pytest
import torch
from orthobatch import BatchOrtho1d, BatchOrtho2d, BatchOrtho3d
from specs import METHODS, SPECS
from torch import nn


def correlated(batch, channels, *places, dtype=torch.double):
    """Data whose channels have something to do with each other, mean about 1."""
    x = torch.randn(batch, channels, *places, dtype=dtype)
    mix = torch.eye(channels, dtype=dtype) + 0.5 * torch.randn(channels, channels, dtype=dtype)
    return torch.einsum("ij,bj...->bi...", mix, x) + 1


def white(samples, channels):
    """All eigenvalues of the covariance equal."""
    x = torch.randn(samples, channels, dtype=torch.double)
    x = x - x.mean(0)
    return torch.linalg.qr(x)[0] * samples**0.5 + 1


def call(layer, x, *parameters):
    """The layer's training pass as a function of its tensors."""
    names = [n for n in ("weight", "bias", "skew") if getattr(layer, n) is not None]
    given = dict(zip(names, parameters))
    return torch.ops.orthobatch.train(x, given.get("weight"), given.get("bias"), given.get("skew"), layer._text)[0]


def parameters_of(layer):
    out = []
    for name in ("weight", "bias", "skew"):
        p = getattr(layer, name)
        if p is not None:
            out.append((p.detach() + 0.3 * torch.randn_like(p)).requires_grad_())
    return out


def test_every_method_is_tested():
    assert {s.split("(")[0].split("->")[0] for s in SPECS} == set(METHODS)


@pytest.mark.parametrize("spec", SPECS)
def test_gradients(spec):
    layer = BatchOrtho2d(4, spec, dtype=torch.double)
    x = correlated(5, 4, 2, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda *t: call(layer, *t), (x, *parameters_of(layer)))


@pytest.mark.parametrize("spec", SPECS)
def test_gradients_at_equal_eigenvalues(spec):
    if any(row.verdict == "no gradient" for row in orthobatch.check(spec, "equal", num_features=4).rows):
        pytest.skip("no gradient exists there")
    layer = BatchOrtho1d(4, spec, dtype=torch.double)
    x = white(12, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda *t: call(layer, *t), (x, *parameters_of(layer)))


@pytest.mark.parametrize("spec", SPECS)
def test_gradients_of_evaluation(spec):
    layer = BatchOrtho1d(4, spec, dtype=torch.double)
    layer(correlated(20, 4))
    layer.eval()
    x = correlated(3, 4).requires_grad_()
    weight, bias, skew = layer.weight, layer.bias, layer.skew
    inputs = [t for t in (x, weight, bias, skew) if t is not None]

    def evaluate(*given):
        given = list(given)
        t = {name: given.pop(0) if own is not None else None
             for name, own in (("x", x), ("w", weight), ("b", bias), ("s", skew))}  # fmt: skip
        return torch.ops.orthobatch.evaluate(
            t["x"], t["w"], t["b"], t["s"], *layer._average(), layer._text
        )

    assert torch.autograd.gradcheck(evaluate, inputs)


@pytest.mark.parametrize("spec", ["ZCA(1e-5)", "LDL(1e-5)", "PCA(1e-5)", "BN"])
def test_output_is_white(spec):
    layer = BatchOrtho2d(6, spec, dtype=torch.double)
    z = layer(correlated(32, 6, 4, 4) * 3)
    cov = orthobatch.covariance(z)
    if spec == "BN":
        assert torch.allclose(cov.diagonal(), torch.ones(6, dtype=torch.double), atol=1e-4)
    else:
        assert orthobatch.whiteness_error(z) < 1e-3


@pytest.mark.parametrize(
    "kind, shape",
    [(BatchOrtho1d, (9, 4)), (BatchOrtho1d, (5, 4, 3)), (BatchOrtho2d, (5, 4, 3, 2)), (BatchOrtho3d, (5, 4, 2, 2, 2))],
)
@pytest.mark.parametrize("running_average", ["covariance", "transform"])
def test_evaluation_comes_near_training(kind, shape, running_average):
    layer = kind(4, "ZCA(1e-5)", momentum=1, running_average=running_average, dtype=torch.double)
    x = correlated(*shape)
    z = layer(x)
    layer.eval()
    assert torch.allclose(layer(x), z, atol=1e-9)


def test_as_batch_norm():
    """BN is torch's BatchNorm: output, gradients, running statistics, momentum None."""
    for momentum in (0.1, None):
        ours, theirs = BatchOrtho2d(5, "BN", momentum=momentum).double(), nn.BatchNorm2d(5, momentum=momentum).double()
        for _ in range(3):
            x = correlated(4, 5, 3, 3)
            a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
            za, zb = ours(a), theirs(b)
            (za**3).sum().backward()
            (zb**3).sum().backward()
            assert torch.allclose(za, zb) and torch.allclose(a.grad, b.grad, atol=1e-9)
        for key, value in theirs.state_dict().items():
            assert torch.allclose(ours.state_dict()[key].to(value.dtype), value), key


@pytest.mark.parametrize("spec", ["ZCA(1e-5)", "BN", "LDL(1e-5)->W->Gamma"])
def test_memory_formats_and_types(spec):
    x = correlated(6, 8, 5, 5, dtype=torch.float)
    layer = BatchOrtho2d(8, spec)
    z = layer(x)
    last = BatchOrtho2d(8, spec)(x.to(memory_format=torch.channels_last))
    assert z.dtype == torch.float and last.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(z, last, atol=1e-5)
    assert layer.double()(x.double()).dtype == torch.double


def test_double_buffers_stay_double():
    layer = BatchOrtho2d(4, "ZCA(1e-5)")
    layer(correlated(9, 4, 2, 2, dtype=torch.float))
    before = layer.running_cov.clone()
    for convert in (
        lambda m: m.float(),
        lambda m: m.half(),
        lambda m: m.to(torch.bfloat16),
        lambda m: m.to("cpu", torch.float),
    ):
        convert(layer)
        assert layer.running_cov.dtype == torch.double and torch.equal(layer.running_cov, before)
        assert layer.num_batches_tracked.dtype == torch.long
    assert layer.weight.dtype == torch.float


def test_state_dict():
    a = BatchOrtho2d(4, "ZCA(1e-5)->W->Gamma")
    a(correlated(9, 4, 2, 2, dtype=torch.float))
    state = a.state_dict()
    assert list(state) == ["weight", "bias", "skew", "running_mean", "running_cov", "num_batches_tracked"]
    assert state._metadata[""]["version"] == 1 and state._metadata[""]["spec"] == a.spec
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    b = BatchOrtho2d(4, "ZCA(1e-3)->W->Gamma")  # numbers may differ
    b.load_state_dict(torch.load(file))
    for key in state:
        assert torch.equal(a.state_dict()[key], b.state_dict()[key]), key
    other = BatchOrtho2d(4, "LDL(1e-5)->W->Gamma")
    with pytest.raises(RuntimeError, match=r"expected a state of LDL\(1e-5\)->W->Gamma, got one of ZCA"):
        other.load_state_dict(state)
    newer = copy.deepcopy(state)
    newer._metadata = copy.deepcopy(state._metadata)
    newer._metadata[""]["version"] = 9
    with pytest.raises(RuntimeError, match="expected a state of version 1 or earlier, got 9"):
        a.load_state_dict(newer)


def test_state_of_batch_norm_loads():
    bn = nn.BatchNorm2d(4)
    bn(torch.randn(9, 4, 3, 3))
    layer = BatchOrtho2d(4, "BN")
    layer.load_state_dict(bn.state_dict())
    assert torch.equal(layer.running_var, bn.running_var) and layer.num_batches_tracked == 1
    old = bn.state_dict()
    del old["num_batches_tracked"]
    layer.load_state_dict(old)
    for options in (dict(spec="ZCA(1e-5)"), dict(spec="ZCA(1e-5, group_size=3)"), dict(spec="LDL(1e-5)->W->Gamma"),
                    dict(spec="ZCA(1e-5)", running_average="transform")):  # fmt: skip
        layer = BatchOrtho2d(4, **options)
        state = bn.state_dict()
        layer.load_state_dict(state)
        x = torch.randn(9, 4, 3, 3)
        assert torch.allclose(layer.eval()(x), copy.deepcopy(bn).eval()(x), atol=1e-4), options
        assert "running_var" in state


def same_layer(a, b):
    x = correlated(7, 4, 3, 3, dtype=torch.float)
    return torch.equal(a(x), b(x)) and all(
        torch.equal(p, q) for p, q in zip(a.state_dict().values(), b.state_dict().values())
    )


def test_copies():
    layer = BatchOrtho2d(4, "ZCA(1e-5)")
    layer(correlated(9, 4, 2, 2, dtype=torch.float))
    assert same_layer(copy.deepcopy(layer), copy.deepcopy(layer))
    assert same_layer(pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer))
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    kwargs = {"weights_only": False} if torch.__version__ >= "2" else {}
    assert same_layer(torch.load(file, **kwargs), copy.deepcopy(layer))


# --------------------------------------------------------------------------------- what is refused


def statistics(layer):
    return [b.clone() for b in layer.buffers()]


@pytest.mark.parametrize(
    "x, kind, text",
    [
        (torch.randn(4, 5, 3, 3), RuntimeError, r"expected 4 channels, got input of size \[4, 5, 3, 3\]"),
        (torch.randn(4, 4), ValueError, r"expected 4D input \(got 2D input\)"),
        (torch.randn(4, 4, 3, 3).double(), RuntimeError, "expected input of the layer's type"),
        (torch.randn(4, 4, 3, 3).to(torch.cfloat), RuntimeError, "expected input of type float, double, half or bfloat16"),
        (torch.randn(1, 4, 1, 1), ValueError, "Expected more than 1 value per channel when training"),
        (torch.full((4, 4, 3, 3), float("nan")), RuntimeError, "expected finite input, got 144 NaN"),
        (torch.full((4, 4, 3, 3), float("inf")), RuntimeError, "144 infinite values"),
    ],
)
def test_bad_input(x, kind, text):
    for layer in (BatchOrtho2d(4, "ZCA(1e-5)", name="here"), BatchOrtho2d(4, "BN", name="here")):
        before = statistics(layer)
        with pytest.raises(kind, match=text) as error:
            layer(x)
        assert "'here'" in str(error.value) and "Exception raised from" not in str(error.value)
        assert all(torch.equal(a, b) for a, b in zip(before, layer.buffers()))


def test_bad_arguments():
    with pytest.raises(ValueError, match="did you mean 'ZCAE'?"):
        BatchOrtho2d(4, "ZCAe(1e-5)")
    for text in ("ZCA(1e-5)→W", "ZCA(ε)", "ZCÄ(1e-5)"):
        with pytest.raises(ValueError, match="→|ε|Ä"):
            BatchOrtho2d(4, text)
    with pytest.raises(TypeError):
        BatchOrtho2d(4.7)
    with pytest.raises(TypeError, match="expected a name, got None"):
        BatchOrtho2d(4, name=None)
    with pytest.raises(ValueError, match="tolerance above 0"):
        orthobatch.check("ZCA", tolerance=float("nan"))
    with pytest.raises(ValueError, match="running_mean and running_statistic, or neither"):
        orthobatch.functional.batch_ortho(torch.randn(4, 3), torch.zeros(3), training=True)
    with pytest.raises(ValueError, match="group_size"):
        BatchOrtho2d(4, "ZCA(1e-5, groups=2)")
    with pytest.raises(ValueError, match="expected 1 to 65536 channels, got 0"):
        BatchOrtho2d(0)
    with pytest.raises(ValueError, match="expected a momentum from 0 to 1, got 2"):
        BatchOrtho2d(4, momentum=2)
    with pytest.raises(ValueError, match="'covariance' or 'transform', got 'both'"):
        BatchOrtho2d(4, running_average="both")
    with pytest.raises(ValueError, match="scale inside the transform"):
        BatchOrtho2d(4, "ZCA_spectral(1e-5)", running_average="transform")
    with pytest.raises(ValueError, match="sample_stride of 1 or more, got 0"):
        BatchOrtho2d(4, sample_stride=0)
    with pytest.raises(ValueError, match="spectrum distinct, close, equal or deficient, got 'flat'"):
        orthobatch.check("ZCA", "flat")


def test_second_derivative_is_refused():
    layer = BatchOrtho2d(4, "ZCA(1e-5)", dtype=torch.double)
    x = correlated(5, 4, 2, 2).requires_grad_()
    (g,) = torch.autograd.grad(layer(x).pow(3).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="expected to be differentiated once"):
        g.sum().backward()


@pytest.mark.parametrize("spec", SPECS)
def test_second_derivative_of_evaluation(spec):
    if spec.startswith("ZCA_spectral"):
        pytest.skip("its scale is inside the transform")
    layer = BatchOrtho2d(4, spec, dtype=torch.double)
    layer(correlated(9, 4, 2, 2))
    layer.eval()
    x = correlated(2, 4, 2, 2).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: layer(x).pow(2), x)


def test_eps():
    layer = BatchOrtho2d(4, "ZCA(1e-5, group_size=2)", eps=1e-3)
    assert layer.eps == 1e-3 and layer.spec == "ZCA(0.001,group_size=2)" and "0.001" in repr(layer)
    x = correlated(9, 4, 2, 2, dtype=torch.float)
    assert torch.equal(layer(x), BatchOrtho2d(4, "ZCA(1e-3, group_size=2)")(x))
    layer.eps = 1e-2  # from now on
    assert layer.spec == "ZCA(0.01,group_size=2)"
    assert torch.equal(layer(x), BatchOrtho2d(4, "ZCA(1e-2, group_size=2)")(x))
    layer.name = "here"
    with pytest.raises(RuntimeError, match="'here'"):
        layer(x[:, :3])
    with pytest.raises(ValueError, match="eps"):
        BatchOrtho2d(4, eps=-1)


def test_without_bias():
    layer = BatchOrtho2d(4, "ZCA(1e-5)", bias=False)
    assert layer.bias is None and list(layer.state_dict())[:2] == ["weight", "running_mean"]
    x = correlated(9, 4, 2, 2, dtype=torch.float).requires_grad_()
    assert torch.allclose(layer(x), BatchOrtho2d(4, "ZCA(1e-5)")(x))
    layer(x).square().sum().backward()
    assert layer.weight.grad is not None


@pytest.mark.parametrize("spec, sizes", [
    ("ZCA(1e-5)", {"running_cov": (7, 7)}), ("BN", {"running_var": (7,)}),
    ("ZCA(1e-5, group_size=7)", {"running_cov": (7, 7)}),
    ("ZCA(1e-5, group_size=3)", {"running_cov": (2, 3, 3), "running_cov_last": (1, 1)}),
])  # fmt: skip
def test_running_statistics_are_blocks(spec, sizes):
    layer = BatchOrtho2d(7, spec, momentum=1, dtype=torch.double)
    assert {k: tuple(b.shape) for k, b in layer.named_buffers() if k.startswith("running_") and k != "running_mean"} \
        == sizes  # fmt: skip
    x = correlated(9, 7, 2, 2)
    z = layer(x)
    layer.eval()
    if spec != "BN":
        assert torch.allclose(layer(x), z, atol=1e-9)
    moved = BatchOrtho2d(7, spec, running_average="transform", momentum=1, dtype=torch.double)
    moved(x)
    assert torch.allclose(moved.eval()(x), z, atol=1e-9)


def test_no_variance_is_said_once():
    layer = BatchOrtho2d(4, "ZCA(0)", name="first")
    x = torch.randn(8, 4, 3, 3)
    x[:, 2] = 1
    with pytest.warns(UserWarning, match="'first': 1 of 4 directions have no variance"):
        z = layer(x)
    assert bool(z.isfinite().all())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(x)


def test_empty_batch():
    layer = BatchOrtho2d(4, "ZCA(1e-5)")
    x = torch.empty(0, 4, 3, 3, requires_grad=True)
    z = layer(x)
    assert z.shape == x.shape and layer.num_batches_tracked == 0
    z.sum().backward()
    assert x.grad.shape == x.shape and not layer.weight.grad.any()


def test_without_running_statistics_and_affine():
    layer = BatchOrtho2d(4, "ZCA(1e-5)", affine=False, track_running_stats=False)
    assert not list(layer.state_dict())
    x = correlated(6, 4, 3, 3, dtype=torch.float)
    assert torch.equal(layer(x), layer.eval()(x))


def test_sample_stride():
    x = correlated(6, 4, 9, 9)
    layer = BatchOrtho2d(4, "ZCA(1e-5)", momentum=1, sample_stride=3, dtype=torch.double)
    whole = BatchOrtho2d(4, "ZCA(1e-5)", momentum=1, dtype=torch.double)
    layer(x)
    whole(x[:, :, ::3, ::3])
    assert torch.allclose(layer.running_cov, whole.running_cov, atol=1e-12)


def test_a_copy_of_the_tape_will_do():
    """Backward takes what forward made; of a copy of the tape it is made anew, to the same bits."""
    x = correlated(6, 4, 3, 3)
    layer = BatchOrtho2d(4)._text
    z, tape = torch.ops.orthobatch.train(x, None, None, None, layer)
    grad = torch.randn_like(z)

    def backward(t):
        return torch.ops.orthobatch.backward(
            grad, x, None, None, None, [t], layer, None, None, None, [], [True] + 6 * [False]
        )[0]

    before = torch.ops.orthobatch.replays_from_copies()
    first = backward(tape)
    assert torch.ops.orthobatch.replays_from_copies() == before
    assert torch.equal(first, backward(tape.clone()))
    assert torch.ops.orthobatch.replays_from_copies() == before + 1
    with pytest.raises(RuntimeError, match="expected the tape of a forward pass"):
        backward(tape[1:])


def test_functional():
    x = correlated(6, 4, 3, 3)
    layer = BatchOrtho2d(4, "ZCA(1e-5)", dtype=torch.double)
    mean, cov = torch.zeros(4, dtype=torch.double), torch.eye(4, dtype=torch.double)
    z = orthobatch.functional.batch_ortho(x, mean, cov, layer.weight, layer.bias, spec="ZCA(1e-5)", training=True)
    assert torch.equal(z, layer(x)) and torch.equal(cov, layer.running_cov) and torch.equal(mean, layer.running_mean)
    e = orthobatch.functional.batch_ortho(x, mean, cov, layer.weight, layer.bias)
    assert torch.equal(e, layer.eval()(x))
    scripted = torch.jit.script(orthobatch.functional.batch_ortho)
    assert torch.equal(scripted(x, mean, cov, layer.weight, layer.bias), e)
    with pytest.raises(ValueError, match="running statistics or training=True"):
        orthobatch.functional.batch_ortho(x)


def test_what_it_says_of_itself():
    names = [m.name for m in orthobatch.methods()]
    assert "ZCA" in names and len(names) == len(set(names))
    zcam = next(m for m in orthobatch.methods() if m.name == "ZCAM")
    assert [a.name for a in zcam.arguments][:3] == ["eps", "K", "c"] and "condition" in str(zcam)
    result = orthobatch.check("ZCA(1e-5)", "close")
    assert result and result.rows[0].error < 1e-7 and "gamma" in str(result)
    assert not all(r.paper_error < 1e-7 for r in orthobatch.check("LDL(1e-5)").rows)
    assert repr(BatchOrtho2d(8)) == 'BatchOrtho2d(8, "ZCAM(1e-5,c=1/10,group_size=16)", momentum=0.1)'
