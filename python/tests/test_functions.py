"""Whitening as functions: against plain torch, at the inputs where that has no gradient, and the examples."""

import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from orthobatch.functional import whiten, whitening_matrix
from specs import SPECS
from test_layers import correlated, white

sys.path.insert(0, str(Path(__file__).absolute().parents[2] / "examples"))
import functions  # noqa: E402

PLAIN = [s for s in SPECS if "->W" not in s and not s.startswith("PLDLP(1e-2, complete")]
MATRICES = [s for s in PLAIN if "group_size=3" not in s]


def covariance(x):
    x = x.movedim(1, -1).reshape(-1, x.size(1))
    x = x - x.mean(0)
    return x.t() @ x / x.size(0)


def eigh_root(sigma, eps):
    values, U = torch.linalg.eigh(sigma + eps * torch.eye(sigma.size(-1), dtype=sigma.dtype))
    return (U * values.rsqrt().unsqueeze(-2)) @ U.transpose(-1, -2)


def cholesky_inverse(sigma, eps):
    one = torch.eye(sigma.size(-1), dtype=sigma.dtype)
    return torch.linalg.inv(torch.linalg.cholesky(sigma + eps * one))


ROOTS = {"ZCA(1e-2)": eigh_root, "LDL(1e-2)": cholesky_inverse}


def central_difference(f, x, direction, h):
    """Fourth order."""
    g = [f(x + k * h * direction) for k in (1, 2)]
    b = [f(x - k * h * direction) for k in (1, 2)]
    return (8 * (g[0] - b[0]) - (g[1] - b[1])) / (12 * h)


def differs(f, x, h=1e-5):
    """The gradient of a weighted sum of f along a random direction against the central difference, relative."""
    weights = torch.randn_like(f(x))
    direction = F.normalize(torch.randn_like(x).flatten(), dim=0).view_as(x)
    total = lambda t: (f(t) * weights).sum()  # noqa: E731
    leaf = x.clone().requires_grad_()
    total(leaf).backward()
    assert leaf.grad.isfinite().all()
    exact, numeric = (leaf.grad * direction).sum(), central_difference(total, x, direction, h)
    return float((exact - numeric).abs() / (leaf.grad.norm() + numeric.abs()))


@pytest.mark.parametrize("shape", [(256, 6), (5, 6, 3), (3, 6, 4, 5), (2, 6, 2, 3, 4)])
@pytest.mark.parametrize("spec", ROOTS)
def test_whiten_is_torchs_composition(spec, shape):
    x = correlated(*shape)
    rows = x.movedim(1, -1)
    T = ROOTS[spec](covariance(x), 1e-2)
    expected = ((rows - rows.reshape(-1, 6).mean(0)) @ T.t()).movedim(-1, 1)
    torch.testing.assert_close(whiten(x, spec), expected, rtol=1e-10, atol=1e-10)
    output, matrix, mean = whiten(x, spec, return_map=True)
    torch.testing.assert_close(output, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(matrix, T, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(mean, rows.reshape(-1, 6).mean(0), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("channels", [64, 128])
@pytest.mark.parametrize("spec", ["LDL(1e-2)", "ZCA(1e-2)"])
def test_gradients_of_features_are_central_differences(spec, channels):
    assert differs(lambda x: whiten(x, spec), correlated(256, channels) / channels**0.5, h=1e-3) < 1e-10


@pytest.mark.parametrize("spec", PLAIN)
def test_gradients_of_whiten(spec):
    x = correlated(9, 4, 2)
    assert torch.autograd.gradcheck(lambda t: whiten(t, spec), (x.requires_grad_(),))


@pytest.mark.parametrize("spec", MATRICES)
def test_gradients_of_the_map(spec):
    """T, μ and the output, all of one x."""
    x = correlated(9, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: whiten(t, spec, return_map=True), (x,))


@pytest.mark.parametrize("spec", MATRICES)
def test_whitening_matrix(spec):
    sigma = torch.stack([covariance(correlated(20, 4)) for _ in range(6)]).view(2, 3, 4, 4)
    T = whitening_matrix(sigma, spec)
    for at in ((0, 1), (1, 2)):  # each for itself, to the bit
        assert torch.equal(T[at], whitening_matrix(sigma[at], spec))
    if spec in ROOTS:
        torch.testing.assert_close(T, ROOTS[spec](sigma, 1e-2), rtol=1e-9, atol=1e-10)
    if "PCA" not in spec:
        symmetric = lambda a: whitening_matrix((a + a.transpose(-1, -2)) / 2, spec)  # noqa: E731
        assert torch.autograd.gradcheck(symmetric, (sigma.requires_grad_(),))


@pytest.mark.parametrize("spec", ["ZCA(1e-5)", "LDL(1e-5)", "IterNorm(1e-2, 5)", "ZCA(1e-5, group_size=2)"])
def test_where_torch_has_no_gradient(spec):
    equal = torch.eye(4, dtype=torch.double).repeat(3, 1, 1)
    singular = torch.ones(3, 4, 4, dtype=torch.double)  # four times the same channel
    for sigma in (equal, 2 * equal, singular):
        leaf = sigma.clone().requires_grad_()
        whitening_matrix(leaf, spec).pow(2).sum().backward()
        assert leaf.grad.isfinite().all()
    assert differs(lambda a: whitening_matrix((a + a.mT) / 2, spec), equal) < 1e-8
    assert differs(lambda x: whiten(x, spec), white(16, 4)) < 1e-8
    few = torch.randn(3, 8, dtype=torch.double)
    assert differs(lambda x: whiten(x, spec.replace("1e-5", "1e-2")), few) < 1e-7


def test_null_directions_are_zero():
    for spec in ("ZCA(0)", "LDL(0)"):
        T = whitening_matrix(torch.diag(torch.tensor([4.0, 0.0, 1.0])), spec)
        assert torch.equal(T, torch.diag(torch.tensor([0.5, 0.0, 1.0])))


def test_types_and_no_matrices():
    for dtype in (torch.half, torch.bfloat16, torch.float, torch.double):
        T = whitening_matrix(4 * torch.eye(3).to(dtype), "ZCA(0)")
        assert T.dtype == dtype and torch.equal(T, torch.eye(3).to(dtype) / 2)
    assert whitening_matrix(torch.zeros(0, 3, 3)).shape == (0, 3, 3)
    meta = whitening_matrix(torch.empty(2, 3, 3, device="meta"))
    assert meta.shape == (2, 3, 3) and meta.is_meta


def test_other_data_with_the_map():
    x, other = correlated(200, 5), correlated(40, 5)
    z, T, mean = whiten(x, "ZCA(1e-5)", return_map=True)
    torch.testing.assert_close((x - mean) @ T.t(), z)
    assert ((other - mean) @ T.t()).shape == other.shape


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: whiten(torch.randn(8, 4), "ZCA(1e-5)->W"), "whiten: expected a spec without learned parameters"),
        (lambda: whiten(torch.randn(8)), "whiten: expected input of two to five dimensions, got 1"),
        (lambda: whiten(torch.randn(1, 4)), "Expected more than 1 value per channel"),
        (lambda: whiten(torch.randn(1, 4), return_map=True), "expected more than 1 value per channel"),
        (lambda: whiten(torch.full((8, 4), float("nan"))), "whiten': expected finite input, got 32 NaN"),
        (lambda: whitening_matrix(torch.randn(3, 4)), "whitening_matrix: expected square matrices"),
        (lambda: whitening_matrix(torch.eye(4), "ZCA(1e-5)->W"), "leave out ->W"),
        (lambda: whitening_matrix(torch.eye(4), "ZCA(1e-5, group_size=3)"), "expected a group_size that divides 4"),
        (lambda: whitening_matrix(torch.full((2, 2), float("inf"))), "expected finite covariances"),
        (lambda: whitening_matrix(torch.ones(2, 2, dtype=torch.long)), "expected a floating type"),
    ],
)
def test_refusals(call, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        call()


# ------------------------------------------------------------------------------- the examples


def same_value_and_gradient(ours, torchs, *inputs):
    found = []
    for f in (ours, torchs):
        leaves = [x.clone().requires_grad_() for x in inputs]
        value = f(*leaves)
        torch.manual_seed(3)
        (value * torch.randn(value.shape, dtype=value.dtype)).sum().backward()
        found.append([value, *(leaf.grad for leaf in leaves)])
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-9)


def plain_whiten(x, spec, eps=1e-5):
    rows = x.movedim(1, -1)
    T = cholesky_inverse(covariance(x), eps)
    return ((rows - rows.reshape(-1, x.size(1)).mean(0)) @ T.t()).movedim(-1, 1)


def test_w_mse():
    def plain(first, second):
        a, b = (F.normalize(plain_whiten(x, None)) for x in (first, second))
        return (2 - 2 * F.cosine_similarity(a, b)).mean()

    same_value_and_gradient(functions.w_mse, plain, correlated(64, 8), correlated(64, 8))


def test_domain_whitening():
    def plain(x):
        parts = [[plain_whiten(g, None) for g in half.split(4, 1)] for half in x.chunk(2)]
        return torch.cat([torch.cat(part, 1) for part in parts])

    same_value_and_gradient(functions.domain_whitening, plain, correlated(6, 8, 5, 5))


def test_covariance_pooling():
    def plain(x):
        sigma = torch.stack([torch.cov(image.flatten(1), correction=0) for image in x])
        values, U = torch.linalg.eigh(sigma)
        root = (U * (values / (values + 1e-5).sqrt()).unsqueeze(-2)) @ U.mT
        i, j = torch.triu_indices(x.size(1), x.size(1))
        return root[:, i, j]

    same_value_and_gradient(functions.covariance_pooling, plain, correlated(3, 5, 6, 6))


def test_operators_pass_through_torch():
    """Second derivatives are refused, functorch differentiates, a copy of the tape is as good."""
    sigma = covariance(correlated(20, 4)).requires_grad_()
    (grad,) = torch.autograd.grad(whitening_matrix(sigma).sum(), sigma, create_graph=True)
    with pytest.raises(RuntimeError, match="whitening_matrix: expected to be differentiated once"):
        grad.sum().backward()
    op = torch.ops.orthobatch
    T, tape = op.whitening_matrix(sigma.detach(), "ZCA(1e-5)")
    ones = torch.ones_like(T)
    first, second = (op.whitening_matrix_backward(ones, sigma.detach(), t, "ZCA(1e-5)") for t in (tape, tape.clone()))
    assert torch.equal(first, second) and torch.allclose(first, grad)
    torch_func = getattr(torch, "func", None)
    if torch_func is not None:
        assert torch.allclose(torch_func.grad(lambda s: whitening_matrix(s).sum())(sigma.detach()), grad)


