"""What a torch of today offers around modules; what it does not take is said in docs/python.md."""

import copy
import importlib.util
import io
import os

import orthobatch
import pytest
import torch
from orthobatch import BatchOrtho1d, BatchOrtho2d
from torch import nn

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
SPECS = ["ZCA(1e-5)", "BN", "ZCAM(1e-5, c=1/10, group_size=4)"]


def since(major, minor):
    return pytest.mark.skipif(VERSION < (major, minor), reason=f"torch {major}.{minor} or later has it")


def net(spec="ZCA(1e-5)"):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), BatchOrtho2d(8, spec), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), BatchOrtho2d(8, spec),
        nn.Flatten(), nn.Linear(8 * 16, 5),
    )  # fmt: skip


@pytest.fixture(params=SPECS)
def spec(request):
    return request.param


@since(2, 7)
@pytest.mark.parametrize("strict", [False, True])
def test_export(spec, strict):
    model, x = net(spec), torch.randn(16, 3, 8, 8)
    model(x)
    model.eval()
    program = torch.export.export(model, (x,), strict=strict)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    assert torch.allclose(torch.export.load(file).module()(x), model(x), atol=1e-5)


@since(2, 8)
@pytest.mark.skipif(importlib.util.find_spec("onnxscript") is None, reason="torch's exporter is made on onnxscript")
def test_onnx_after_fold(spec, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    model, x = net(spec), torch.randn(16, 3, 8, 8)
    model(x)
    plain = orthobatch.fold(model.eval())
    torch.onnx.export(plain, (x,), str(tmp_path / "net.onnx"), dynamo=True, verbose=False)
    session = runtime.InferenceSession(str(tmp_path / "net.onnx"))
    (z,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    assert torch.allclose(torch.from_numpy(z), model(x), atol=1e-4)


@since(2, 0)
def test_func(spec):
    """Gradients of a function of the parameters, and in evaluation those of each sample, as nn's modules give them."""
    model, x = net(spec), torch.randn(16, 3, 8, 8)
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())

    def loss(p, inputs):
        return torch.func.functional_call(model, (p, buffers), (inputs,)).square().sum()

    found = torch.func.grad(loss)(parameters, x)
    twin = copy.deepcopy(model)
    twin(x).square().sum().backward()
    for name, p in twin.named_parameters():
        assert torch.allclose(found[name], p.grad, atol=1e-3, rtol=1e-3), name

    model.eval()
    each = torch.func.vmap(torch.func.grad(lambda p, one: loss(p, one.unsqueeze(0))), in_dims=(None, 0))(parameters, x)
    total = torch.func.grad(loss)(parameters, x)
    for name in total:
        assert torch.allclose(each[name].sum(0), total[name], atol=1e-3, rtol=1e-3), name


@since(2, 0)
@pytest.mark.parametrize("make", [BatchOrtho1d, BatchOrtho2d])
def test_to_empty(spec, make):
    """A layer made without memory is one as any other once it has some."""
    with torch.device("meta"):
        layer = make(8, spec)
    assert layer.weight.is_meta and all(b.is_meta for b in layer.buffers())
    layer.to_empty(device="cpu")
    layer.reset_parameters()
    fresh = make(8, spec)
    for (name, a), (_, b) in zip(layer.state_dict().items(), fresh.state_dict().items()):
        assert name == "_extra_state" or torch.equal(torch.as_tensor(a), torch.as_tensor(b)), name
    x = torch.randn(6, 8, *[3] * (2 * (make is BatchOrtho2d)))
    assert torch.equal(layer(x), fresh(x))


def _sharded_rank(rank, world, store, spec, results):
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = net(spec)
    plain = copy.deepcopy(model)
    mesh = dist.device_mesh.init_device_mesh("cpu", (world,))
    for layer in (m for m in model if isinstance(m, (nn.Conv2d, nn.Linear, BatchOrtho2d))):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    x = torch.randn(16, 3, 8, 8)  # the same on all: so the mean gradient is each one's own
    plain(x).square().sum().backward()
    model(x).square().sum().backward()
    worst = max(
        (p.grad.full_tensor() - q.grad).abs().max().item() / q.grad.abs().max().clamp_min(1e-6).item()
        for p, q in zip(model.parameters(), plain.parameters())
    )
    buffers = all(torch.equal(a, b) for a, b in zip(model.buffers(), plain.buffers()))
    results.put((rank, worst, buffers))
    dist.barrier()
    dist.destroy_process_group()


@since(2, 14)  # 2.6 has it, and fails on a CPU: its streams there have no events
def test_fully_shard(tmp_path):
    """FSDP2: the parameters of a layer are shards, its buffers each rank's own."""
    context = torch.multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    ranks = [context.Process(target=_sharded_rank, args=(r, 2, tmp_path / "store", "ZCA(1e-5)", results)) for r in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(120)
    assert [rank.exitcode for rank in ranks] == [0, 0]
    for _ in ranks:
        rank, worst, buffers = results.get()
        assert worst < 1e-3 and buffers, (rank, worst, buffers)
