"""The layers under what torch offers around modules; each a test."""

import contextlib
import copy
import io
import os
import socket
import threading
import time

import orthobatch
import pytest
import torch
import torch.fx
from orthobatch import BatchOrtho2d
from torch import nn

TORCH2 = int(torch.__version__.split(".")[0]) >= 2
SPECS = ["ZCA(1e-5)", "BN", "LDL(1e-5)->W->Gamma"]


def net(spec="ZCA(1e-5)"):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), BatchOrtho2d(8, spec), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), BatchOrtho2d(8, spec),
        nn.Flatten(), nn.Linear(8 * 16, 5),
    )  # fmt: skip


def data(batch=16):
    return torch.randn(batch, 3, 8, 8)


def step(model, x):
    """A training step: output, gradients, state."""
    model.zero_grad()
    y = model(x)
    y.square().sum().backward()
    grads = [p.grad.clone() for p in model.parameters()]
    return [y.detach(), *grads, *(b.clone() for b in model.buffers())]


def same(a, b, tolerance=0.0):
    assert len(a) == len(b)
    for s, t in zip(a, b):
        if tolerance == 0:
            assert torch.equal(s, t)
        else:
            assert torch.allclose(s.double(), t.double(), atol=tolerance, rtol=tolerance)


@pytest.fixture(params=SPECS)
def spec(request):
    return request.param


def test_script(spec):
    model, x = net(spec), data()
    scripted = torch.jit.script(copy.deepcopy(model))
    file = io.BytesIO()
    torch.jit.save(scripted, file)
    file.seek(0)
    again = torch.jit.load(file)
    want = step(model, x)
    same(step(scripted, x), want)
    same(step(again, x), want)
    scripted.eval()
    again.eval()
    model.eval()
    same([scripted(x), again(x)], [model(x), model(x)])
    frozen = torch.jit.freeze(scripted)
    assert torch.allclose(frozen(x), model(x), atol=1e-5)


def test_trace(spec):
    model, x = net(spec), data()
    model(x)
    model.eval()
    traced = torch.jit.trace(model, x)
    same([traced(data(4) * 0 + x[:4])], [model(x[:4])])
    model.train()
    other = copy.deepcopy(model)
    traced = torch.jit.trace(copy.deepcopy(model), x, check_trace=False)  # tracing takes a batch itself
    model(x)
    same(step(traced, x), step(model, x))
    del other


def test_fx(spec):
    model, x = net(spec), data()
    graph = torch.fx.symbolic_trace(copy.deepcopy(model))
    assert len(orthobatch.layers_of(graph)) == 2  # leaves, as BatchNorm is
    same(step(graph, x), step(model, x))
    model.eval()
    graph.eval()
    same([graph(x)], [model(x)])
    layer = BatchOrtho2d(3, spec)
    inside = torch.fx.symbolic_trace(copy.deepcopy(layer))  # the layer itself: its operators
    inside.graph.eliminate_dead_code()  # the running averages are no dead code
    inside.recompile()
    same(step(inside, x), step(layer, x))


def test_forward_mode_is_refused():
    import torch.autograd.forward_ad as forward_ad

    layer = BatchOrtho2d(3)
    for mode in (True, False):
        layer.train(mode)
        with forward_ad.dual_level():
            with pytest.raises(NotImplementedError, match="forward mode is not available"):
                layer(forward_ad.make_dual(data(), data()))


def test_devices_that_differ():
    with pytest.raises(RuntimeError, match="expected layer and input on one device, got meta and cpu"):
        BatchOrtho2d(3, device="meta")(data())
    with pytest.raises(RuntimeError, match="on one device, got meta and cpu"):
        BatchOrtho2d(3).eval()(data().to("meta"))


def test_checkpoint():
    from torch.utils.checkpoint import checkpoint

    model, x = net(), data()
    other = copy.deepcopy(model)
    kwargs = {"use_reentrant": False}
    want = step(model, x)
    got = step(lambda_module(lambda t: checkpoint(other, t, **kwargs), other), x)
    count = sum(1 for _ in model.parameters()) + 1
    same(got[:count], want[:count])
    assert other[1].num_batches_tracked == 2  # forward ran twice, as with torch's BatchNorm


def lambda_module(function, module):
    class Wrapped:
        def __call__(self, x):
            return function(x)

        def __getattr__(self, name):
            return getattr(module, name)

    return Wrapped()


def test_autocast():
    model, x = net(), data()
    layer = BatchOrtho2d(8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = layer(torch.randn(4, 8, 3, 3).bfloat16())
        assert z.dtype == torch.float
        layer.eval()
        assert layer(torch.randn(4, 8, 3, 3).bfloat16()).dtype == torch.float
        w = torch.randn(4, 8, 3, 3, requires_grad=True)
        layer.train()
        layer(w.bfloat16()).square().sum().backward()
    assert w.grad.dtype == torch.float and bool(w.grad.isfinite().all())
    assert layer.running_mean.dtype == torch.float
    pair = orthobatch.FoldedConv2d(BatchOrtho2d(8), nn.Conv2d(8, 4, 3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert pair(torch.randn(4, 8, 5, 5).bfloat16()).dtype == torch.bfloat16
    del model, x


def test_functorch(spec):
    if TORCH2:
        from torch.func import functional_call, grad

        def call(model, tensors, x):
            return functional_call(model, tensors, (x,))

    else:
        from functorch import grad, make_functional_with_buffers

    model, x = net(spec).double(), data().double()
    want = step(copy.deepcopy(model), x)
    if TORCH2:
        parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())

        def loss(p):
            return call(model, {**p, **{k: b.clone() for k, b in buffers.items()}}, x).square().sum()

        got = [g for g in grad(loss)(parameters).values()]
    else:
        function, parameters, buffers = make_functional_with_buffers(model)
        got = list(grad(lambda p: function(p, [b.clone() for b in buffers], x).square().sum())(parameters))
    same(got, want[1 : 1 + len(got)], 1e-9)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap():
    """Slices are whitened apart in evaluation and as a function; running averages cannot follow all of them."""
    if TORCH2:
        from torch.func import vmap
    else:
        from functorch import vmap
    layer, x = BatchOrtho2d(4, "ZCA(1e-5)"), torch.randn(3, 6, 4, 5, 5)
    with pytest.raises(RuntimeError, match="vmap: expected a layer in evaluation or without running averages"):
        vmap(layer)(x)
    training = BatchOrtho2d(4, "ZCA(1e-5)", track_running_stats=False)
    layer(x[0])
    for function in (layer.eval(), training, lambda x: orthobatch.functional.batch_ortho(x, training=True)):
        torch.testing.assert_close(vmap(function)(x), torch.stack([function(one) for one in x]))


def test_no_grad_and_inference_mode(spec):
    model, x = net(spec), data()
    want = copy.deepcopy(model)(x)
    for mode in (torch.no_grad, torch.inference_mode):
        other = copy.deepcopy(model)
        with mode():
            y = other(x)
            assert torch.equal(y, want) and not y.requires_grad
        other.eval()
        with mode():
            first, second = other(x), other(x)
        assert torch.equal(first, second)
    assert other(x).requires_grad


def test_several_threads(spec):
    model = net(spec)
    model(data())
    model.eval()
    inputs = [data(4) for _ in range(8)]
    with torch.no_grad():
        want = [model(x) for x in inputs]
        got = [None] * len(inputs)

        def work(k):
            with torch.no_grad():
                for _ in range(20):
                    got[k] = model(inputs[k])

        threads = [threading.Thread(target=work, args=(k,)) for k in range(len(inputs))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    same(got, want)

    trained = [copy.deepcopy(model).train() for _ in range(4)]
    want = [step(copy.deepcopy(m), x) for m, x in zip(trained, inputs)]
    results = [None] * 4

    def train(k):
        results[k] = step(trained[k], inputs[k])

    threads = [threading.Thread(target=train, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for got_one, want_one in zip(results, want):
        same(got_one, want_one)


def test_channels_last(spec):
    model, x = net(spec), data()
    other = copy.deepcopy(model).to(memory_format=torch.channels_last)
    same(step(other, x.to(memory_format=torch.channels_last)), step(model, x), 2e-3)


def test_meta_and_fake(spec):
    if spec == "BN":
        layer = BatchOrtho2d(8, spec, device="meta")
    else:
        layer = BatchOrtho2d(8, spec, device="meta", dtype=torch.double)
    x = torch.empty(4, 8, 3, 3, device="meta", dtype=layer.bias.dtype, requires_grad=True)
    z = layer(x)
    assert z.is_meta and z.shape == x.shape
    z.sum().backward()
    assert x.grad.is_meta and x.grad.shape == x.shape
    real = layer.to_empty(device="cpu")
    real.reset_parameters()
    assert bool(real(torch.randn(4, 8, 3, 3).to(real.bias.dtype)).isfinite().all())
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.randn(4, 8, 3, 3))
        assert BatchOrtho2d(8, spec)(fake).shape == (4, 8, 3, 3)


def _free_port():
    with contextlib.closing(socket.socket()) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _leave(rank, ranks, folder):
    """Ends this rank when all are through, without taking its group down: torch 1.13 may wait for ever there, the thread
    of Gloo for Python's lock and who holds that for the thread."""
    open(os.path.join(folder, f"{rank}.done"), "w").close()
    while not all(os.path.exists(os.path.join(folder, f"{k}.done")) for k in range(ranks)):
        time.sleep(0.05)
    os._exit(0)


def _rank(rank, port, folder):
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo", USE_LIBUV="0")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(5)
    model = DistributedDataParallel(net())
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(data()).square().mean().backward()
        optimizer.step()
    torch.save([p.detach() for p in model.parameters()], os.path.join(folder, f"{rank}.pt"))
    _leave(rank, 2, folder)


def test_distributed_data_parallel(tmp_path):
    torch.multiprocessing.spawn(_rank, (_free_port(), str(tmp_path)), nprocs=2)
    first, second = (torch.load(tmp_path / f"{k}.pt") for k in range(2))
    same(first, second)
    torch.manual_seed(5)
    assert not torch.equal(first[0], next(net().parameters()))


def _synchronized_rank(rank, port, shards, folder):
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo", USE_LIBUV="0")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=len(shards))
    out = {}
    for spec in SPECS + ["ZCAE(1e-5)", "PLDLP(1e-5)", "ZCA(1e-5, group_size=4)"]:
        torch.manual_seed(5)
        x, h = torch.randn(11, 3, 8, 8).double() + 1, torch.randn(11, 5).double()
        whole, part = net(spec).double(), net(spec).double()
        part.load_state_dict(whole.state_dict())
        orthobatch.fold_training(part)
        orthobatch.convert_sync(part)
        shared = DistributedDataParallel(part, broadcast_buffers=False)
        worst = 0.0
        for _ in range(2):
            whole.zero_grad()
            shared.zero_grad()
            want = whole(x)
            (want * h).sum().backward()
            y = shared(x.split(shards)[rank])
            (y * h.split(shards)[rank]).sum().backward()
            worst = max(worst, float((y - want.split(shards)[rank]).abs().max() / want.abs().max()))
            mine = sorted(float(p.grad.norm()) * len(shards) for p in part.parameters())
            theirs = sorted(float(p.grad.norm()) for p in whole.parameters())
            worst = max(worst, max(abs(a - b) / max(b, 0.1) for a, b in zip(mine, theirs)))
        for a, b in zip(orthobatch.layers_of(part), orthobatch.layers_of(whole)):
            for s, t in zip(a[1].buffers(), b[1].buffers()):
                worst = max(worst, float((s.double() - t.double()).abs().max()))
        out[spec] = worst
    torch.save(out, os.path.join(folder, f"{rank}.pt"))
    try:
        orthobatch.convert_sync(net("ZCA(1e-5)" if rank else "BN"))
        refused = ""
    except RuntimeError as error:
        refused = str(error)
    assert "expected the same layers in all processes, but rank 1 has others than rank 0" in refused
    _leave(rank, len(shards), folder)


def test_synchronised_under_distributed_data_parallel(tmp_path):
    shards = [3, 8]
    torch.multiprocessing.spawn(_synchronized_rank, (_free_port(), shards, str(tmp_path)), nprocs=2)
    for rank in range(2):
        for spec, worst in torch.load(tmp_path / f"{rank}.pt").items():
            assert worst < 1e-11, (spec, worst)


# ------------------------------------------------------------------------------------ torch 2 alone

torch2 = pytest.mark.skipif(not TORCH2, reason="torch 2 alone has it")


def _train_arguments(spec):
    layer = BatchOrtho2d(4, spec, dtype=torch.double)
    x = torch.randn(6, 4, 3, 3, dtype=torch.double, requires_grad=True)
    return layer, (x, layer.weight, layer.bias, layer.skew, layer._text)


@torch2
def test_opcheck(spec):
    layer, arguments = _train_arguments(spec)
    torch.library.opcheck(torch.ops.orthobatch.train.default, arguments)
    out = torch.ops.orthobatch.train(*arguments)
    x, weight, bias, skew, text = arguments
    mean, statistic, last = layer._average()
    torch.library.opcheck(torch.ops.orthobatch.evaluate.default, (*arguments[:4], mean, statistic, last, text))
    with torch.no_grad():
        wanted = [True, weight is not None, True, skew is not None, False, False, False]
        torch.library.opcheck(
            torch.ops.orthobatch.backward.default,
            (torch.randn_like(x), x.detach(), weight, bias, skew, [out[1]], text, None, None, None, [], wanted),
        )
        torch.library.opcheck(
            torch.ops.orthobatch.track_.default,
            (mean, statistic, last, layer.num_batches_tracked, weight, out[1], 0.1, text),
        )
    w = torch.randn(5, 4, 3, 3, dtype=torch.double, requires_grad=True)
    torch.library.opcheck(
        torch.ops.orthobatch.train.default, (*arguments, None, w, None, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    )


@torch2
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(spec, backend):
    model, x = net(spec), data()
    compiled = torch.compile(copy.deepcopy(model), fullgraph=True, backend=backend)
    same(step(compiled, x), step(model, x), 1e-3)
    compiled.eval()
    model.eval()
    assert torch.allclose(compiled(x), model(x), atol=1e-4)
    dynamic = torch.compile(copy.deepcopy(model), fullgraph=True, backend=backend, dynamic=True)
    assert torch.allclose(dynamic(x[:5]), model(x[:5]), atol=1e-4)


@torch2
def test_export(spec):
    model, x = net(spec), data()
    model(x)
    model.eval()
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},))
    assert torch.allclose(program.module()(x[:5]), model(x[:5]), atol=1e-5)
    folded = torch.export.export(orthobatch.fold(model), (x,))
    assert not any("orthobatch" in str(n.target) for n in folded.graph.nodes)
