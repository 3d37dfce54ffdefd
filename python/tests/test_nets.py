"""Whole nets: converting, statistics, archives."""

import copy

import orthobatch
import pytest
import torch
from nets import resnet, trained
from orthobatch import BatchOrtho1d, BatchOrtho2d, BatchOrtho3d
from torch import nn

# --------------------------------------------------------------------------------------- converting


def test_convert_resnet(caplog):
    model = resnet()
    x = torch.randn(8, 3, 32, 32)
    trained(model, x)
    before = copy.deepcopy(model).eval()(x)
    bn = copy.deepcopy(model.layer2[0].bn1)
    with caplog.at_level("INFO", "orthobatch"):
        result = orthobatch.convert(model, "ZCA(1e-5, group_size=16)", skip=["layer4.*", "bn1"])
    assert result is model
    said = caplog.text
    assert "14 layers are ZCA(1e-5,group_size=16) now: layer1.0.bn1, " in said
    assert "skipped bn1, layer4.0.bn1" in said
    layer = model.layer2[0].bn1
    assert isinstance(layer, BatchOrtho2d) and isinstance(model.bn1, nn.BatchNorm2d)
    assert torch.equal(layer.weight, bn.weight) and torch.equal(layer.running_mean, bn.running_mean)
    assert layer.running_cov.shape == (8, 16, 16)
    variances = layer.running_cov.diagonal(dim1=1, dim2=2).flatten()
    assert torch.allclose(variances, bn.running_var.double() + 1e-5)
    assert layer.num_batches_tracked == 3 and layer.name == "layer2.0.bn1" and layer.training
    # Without correlations the converted net is the net it was.
    assert torch.allclose(model.eval()(x), before, atol=1e-4)
    trained(model.train(), x)
    assert layer.running_cov.tril(-1).abs().max() > 0


@pytest.mark.parametrize("spec", ["BN", "ZCA(1e-5)", "ZCA_corr(1e-5)", "LDL(1e-5)", "PCA(1e-5)", "ZCAM(1e-5,c=0)"])
@pytest.mark.parametrize("running_average", ["covariance", "transform"])
def test_convert_keeps_the_function(spec, running_average):
    bn = nn.BatchNorm2d(5)
    bn(torch.randn(9, 5, 4, 4) * torch.arange(1, 6).view(1, 5, 1, 1) + 2)
    with torch.no_grad():
        bn.weight.uniform_(0.5, 2)
        bn.bias.uniform_(-1, 1)
    bn.eval()
    layer = orthobatch.convert(copy.deepcopy(bn), spec, running_average=running_average)
    assert not layer.training
    x = torch.randn(3, 5, 4, 4)
    z, want = layer(x), bn(x)
    if spec.startswith("PCA"):  # principal axes are in the order of their variance
        bare = (z - bn.bias.view(1, 5, 1, 1)) / bn.weight.view(1, 5, 1, 1)
        z = bare.flip(1) * bn.weight.view(1, 5, 1, 1) + bn.bias.view(1, 5, 1, 1)
    assert torch.allclose(z, want, atol=1e-4)


def test_convert_other_nets():
    shared = nn.BatchNorm1d(4)
    model = nn.ModuleDict({"a": nn.Sequential(nn.Linear(3, 4), shared), "b": nn.Sequential(shared, nn.BatchNorm3d(2))})
    orthobatch.convert(model, "LDL(1e-5)")
    assert isinstance(model["a"][1], BatchOrtho1d) and model["a"][1] is model["b"][0]
    assert isinstance(model["b"][1], BatchOrtho3d)
    none = nn.BatchNorm2d(3, affine=False, track_running_stats=False, momentum=None)
    layer = orthobatch.convert(none)
    assert layer.weight is None and layer.running_mean is None and layer.momentum is None
    chosen = orthobatch.convert(
        nn.Sequential(nn.BatchNorm2d(4), nn.BatchNorm2d(64)), skip=lambda path, m: m.num_features < 8
    )
    assert isinstance(chosen[0], nn.BatchNorm2d) and isinstance(chosen[1], BatchOrtho2d)
    with pytest.raises(ValueError, match="LazyBatchNorm2d"):
        orthobatch.convert(nn.Sequential(nn.LazyBatchNorm2d()))
    with pytest.raises(ValueError, match="unknown method"):
        orthobatch.convert(nn.BatchNorm2d(4), "Zeca")


def test_norm_layer_arguments():
    torchvision = pytest.importorskip("torchvision")
    import pickle

    model = torchvision.models.resnet18(norm_layer=orthobatch.zca16)
    assert model.bn1.spec == "ZCA(1e-5,group_size=16)"
    mobile = torchvision.models.mobilenet_v2(norm_layer=orthobatch.norm_layer("LDL(1e-5, group_size=8)", momentum=0.01))
    layers = orthobatch.layers_of(mobile)
    assert len(layers) == 52 and all(m.momentum == 0.01 for _, m in layers)
    assert pickle.loads(pickle.dumps(orthobatch.zcae)) is orthobatch.zcae
    import functools

    partial = functools.partial(orthobatch.norm_layer("ZCAE(1e-5)"), eps=1e-3, momentum=0.01)
    assert partial(8).eps == 1e-3 and partial(8).momentum == 0.01 and partial(8).spec.startswith("ZCAE(0.001")
    assert orthobatch.norm_layer("ZCA(1e-5)")(8, 1e-2, 0.2, False).weight is None
    again = pickle.loads(pickle.dumps(orthobatch.norm_layer("LDL(1e-5)", momentum=0.3)))(8, device="meta", dtype=torch.double)
    assert again.spec == "LDL(1e-5)" and again.momentum == 0.3 and again.weight.is_meta
    assert again.weight.dtype == torch.double
    for make in (orthobatch.bn, orthobatch.zca, orthobatch.zca64, orthobatch.zcam, orthobatch.zcae, orthobatch.ldl):
        made = make(8, eps=1e-3, momentum=0.2)
        assert isinstance(made, BatchOrtho2d) and made.eps == 1e-3 and made.momentum == 0.2


def test_what_convert_leaves_alone(caplog):
    class Active(nn.BatchNorm2d):
        def forward(self, x):
            return torch.relu(super().forward(x))

    bn = nn.BatchNorm2d(4)
    hooked = nn.BatchNorm2d(4)
    hooked.register_forward_hook(lambda module, inputs, output: output * 2)
    net = nn.Sequential(Active(4), bn, nn.ReLU(), bn, hooked)
    orthobatch.convert(net)
    assert type(net[0]) is Active and isinstance(net[1], BatchOrtho2d) and net[1] is net[3] and net[4] is hooked
    assert "left as they are: 0 (Active has a forward of its own), 4 (it has hooks)" in caplog.text
    mixed = nn.Sequential(nn.BatchNorm2d(4), nn.LazyBatchNorm2d())
    with pytest.raises(ValueError, match="LazyBatchNorm2d"):
        orthobatch.convert(mixed)
    assert type(mixed[0]) is nn.BatchNorm2d  # all or nothing
    orthobatch.convert(mixed, skip="1")
    orthobatch.convert(nn.Sequential(nn.BatchNorm2d(4)), skip="nowhere")
    with caplog.at_level("INFO", "orthobatch"):
        orthobatch.convert(nn.Sequential(nn.BatchNorm2d(4)), skip="nowhere")
    assert "nothing to skip was found" in caplog.text


def test_an_optimizer_made_before_convert_goes_on():
    for spec in ("ZCA(1e-5)", "BN(1e-5)"):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        theirs = model[1]
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        orthobatch.convert(model, spec)
        assert model[1].weight is theirs.weight and model[1].bias is theirs.bias
        assert model[1].running_mean is theirs.running_mean
        assert model[1].num_batches_tracked is theirs.num_batches_tracked
        assert (spec == "BN(1e-5)") == (model[1].running_var is theirs.running_var)
        model(torch.randn(4, 3, 6, 6)).square().sum().backward()
        before = model[1].weight.detach().clone()
        optimizer.step()
        assert not torch.equal(model[1].weight, before)


def test_convert_keeps_eps():
    bn = nn.BatchNorm2d(4, eps=1e-3)
    bn.running_var.fill_(1e-4)
    x = torch.randn(3, 4, 5, 5)
    want = bn.eval()(x)
    kept = orthobatch.convert(copy.deepcopy(bn), "ZCA(1e-5)")
    assert kept.eps == 1e-3 and torch.allclose(kept(x), want, atol=1e-4)
    told = orthobatch.convert(nn.Sequential(copy.deepcopy(bn)), "ZCA(1e-5)", eps=1e-5)[0]
    assert told.eps == 1e-5 and told.spec == "ZCA(1e-5)"


def test_convert_from_spec_to_spec():
    layer = BatchOrtho2d(6, "ZCA(1e-5)", momentum=1, sample_stride=2, dtype=torch.double)
    x = torch.randn(64, 6, 5, 5, dtype=torch.double)
    layer(x)
    covariance = layer.running_cov.clone()
    net = orthobatch.convert(nn.Sequential(copy.deepcopy(layer)), "LDL(0)")
    assert net[0].spec == "LDL(0)" and torch.equal(net[0].running_cov, covariance) and net[0].sample_stride == 2
    z = net.eval()(x[:, :, ::2, ::2])
    assert orthobatch.whiteness_error(z) < 1e-3
    groups = orthobatch.convert(copy.deepcopy(layer), "ZCA(1e-5, group_size=4)")
    assert torch.equal(groups.running_cov[0], covariance[:4, :4])
    assert torch.equal(groups.running_cov_last, covariance[4:, 4:])
    back = orthobatch.convert(groups, "ZCA(1e-5)")
    assert torch.equal(back.running_cov[:4, :4], covariance[:4, :4]) and not back.running_cov[4:, :4].any()
    variances = orthobatch.convert(copy.deepcopy(layer), "BN")
    assert torch.allclose(variances.running_var, covariance.diagonal())
    same = orthobatch.convert(layer, "ZCA(1e-3)")
    assert same.running_cov is layer.running_cov and same.weight is layer.weight and same.eps == 1e-3


class BatchNormAct2d(nn.BatchNorm2d):
    """As timm's: norm, drop and act in one."""

    def __init__(self, num_features):
        super().__init__(num_features, eps=1e-3)
        self.drop = nn.Identity()
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.drop(super().forward(x)))


def test_convert_fused_activations():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), BatchNormAct2d(4))
    fused, x = net[1], torch.randn(6, 3, 8, 8)
    net(x)
    net.eval()
    want = net(x)
    orthobatch.convert(net, "ZCA(1e-5)")
    assert torch.allclose(net(x), want, atol=1e-4) and bool((net(x) >= 0).all())
    assert net[1].act is fused.act and net[1].drop is fused.drop and net[1].norm.eps == 1e-3
    assert torch.allclose(orthobatch.fold(net)(x), want, atol=1e-4)


def test_convert_sync_batch_norm():
    net = nn.Sequential(nn.SyncBatchNorm(4), nn.SyncBatchNorm(4, eps=1e-3))
    orthobatch.convert(net, "ZCA(1e-5)")
    assert isinstance(net[0], BatchOrtho2d) and net[0].synchronized and net[1].eps == 1e-3
    assert net[0].process_group.group is None  # all processes
    assert net(torch.randn(6, 4, 3, 3)).shape == (6, 4, 3, 3)  # here: one alone
    assert copy.deepcopy(net)[0].process_group is net[0].process_group


def test_state_of_batch_norm_loads_into_a_converted_net():
    model = resnet()
    trained(model, torch.randn(8, 3, 32, 32))
    x = torch.randn(2, 3, 32, 32)
    want = model.eval()(x)
    for spec in ("ZCA(1e-5, group_size=16)", "LDL(1e-5)", "BN(1e-5)"):
        other = resnet(spec)
        other.load_state_dict(model.state_dict())
        assert float((other.eval()(x) - want).abs().max()) < 1e-4 * float(want.abs().max()), spec


# ---------------------------------------------------------------------------------------- statistics


def small():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), BatchOrtho2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Conv2d(4, 4, 3), BatchOrtho2d(4, "BN")
    )


def test_update_statistics():
    model = small()
    batches = [torch.randn(8, 3, 8, 8) for _ in range(4)]
    for b in batches:
        model(b)
    seen = orthobatch.update_statistics(model, [(b, 0) for b in batches])
    assert seen == 4 and model.training and model[1].momentum == 0.1 and model[1].num_batches_tracked == 4
    outputs = [model[0](b) for b in batches]
    want = torch.stack([orthobatch.covariance(y) for y in outputs]).mean(0) + 1e-5 * torch.eye(4)
    assert torch.allclose(model[1].running_cov, want, atol=1e-6)
    again = copy.deepcopy(model)
    orthobatch.update_statistics(again, batches)
    assert torch.equal(again[5].running_var, model[5].running_var)  # dropout was off
    left = iter(batches)
    assert orthobatch.update_statistics(model, left, batches=2) == 2 and len(list(left)) == 2
    with pytest.raises(ValueError, match="one batch or more, got 0"):
        orthobatch.update_statistics(model, batches, batches=0)

    state = copy.deepcopy(model.state_dict())
    for bad in ([], [torch.empty(0, 3, 8, 8)], [batches[0], torch.randn(8, 5, 8, 8)]):
        with pytest.raises((ValueError, RuntimeError)):
            orthobatch.update_statistics(model, bad)
        assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
        assert model.training and model[1].momentum == 0.1


def test_freeze():
    model, x = small(), torch.randn(8, 3, 8, 8)
    model(x)
    orthobatch.freeze(model, parameters=True)
    model.train()
    before = copy.deepcopy(model[1].state_dict())
    z = model[1](model[0](x))
    assert all(torch.equal(v, before[k]) for k, v in model[1].state_dict().items())
    assert torch.equal(z, copy.deepcopy(model[1]).eval()(model[0](x))) and not model[1].weight.requires_grad
    orthobatch.unfreeze(model)
    model(x)
    assert model[1].num_batches_tracked == 2 and model[1].weight.requires_grad
    model[1].bias.requires_grad_(False)
    orthobatch.unfreeze(orthobatch.freeze(model, parameters=True))
    assert model[1].weight.requires_grad and not model[1].bias.requires_grad
    with pytest.raises(ValueError, match="keeps none"):
        orthobatch.freeze(BatchOrtho2d(4, track_running_stats=False))


def test_summary():
    model = orthobatch.name_layers(small())
    assert orthobatch.summary(model)[0].samples == 0
    model(torch.randn(8, 3, 8, 8))
    rows = orthobatch.summary(model)
    assert [r.name for r in rows] == ["1", "5"] and rows[0].samples == 8 * 36 and rows[0].condition_number > 1
    assert 1 <= rows[0].effective_rank <= 4 and "eff.rank" in str(rows) and model[1].name == "1"


def test_archives(tmp_path):
    import os
    import stat

    model = nn.Sequential(nn.Conv2d(3, 4, 3), BatchOrtho2d(4, "ZCA(1e-5)"))
    path = tmp_path / "net.pt"
    before = os.umask(0o022)
    try:
        orthobatch.save_archive(model, path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644 and os.listdir(tmp_path) == ["net.pt"]
    with pytest.raises(RuntimeError, match=r"expected a state of LDL\(1e-5\), got one of ZCA"):
        nn.Sequential(nn.Conv2d(3, 4, 3), BatchOrtho2d(4, "LDL(1e-5)")).load_state_dict(orthobatch.load_archive(path))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        orthobatch.save_archive(model, tmp_path / "nowhere" / "a.pt")
    torch.save(model.state_dict(), tmp_path / "other.pt")
    with pytest.raises(RuntimeError, match="expected an archive of torch::save or save_archive"):
        orthobatch.load_archive(tmp_path / "other.pt")


def test_advice_on_wide_layers(recwarn):
    BatchOrtho2d(900, "ZCA(1e-5, group_size=64)")
    assert not [w for w in recwarn if "channels together" in str(w.message)]
    for _ in range(2):
        BatchOrtho2d(900, "ZCA(1e-5)")
    assert len([w for w in recwarn if "whitens 900 channels together" in str(w.message)]) == 1
    with pytest.raises(ValueError, match="found the number 0.001. For an epsilon write eps=0.001"):
        BatchOrtho2d(64, 1e-3)


def test_nets_built_by_hand_are_named():
    net = nn.Sequential(nn.Sequential(nn.Conv2d(3, 4, 1), BatchOrtho2d(4)), BatchOrtho2d(4, name="own"))
    orthobatch.auto_update_statistics(net)
    assert [layer.name for _, layer in orthobatch.layers_of(net)] == ["0.1", "own"]
    with pytest.raises(RuntimeError, match="'0.1': expected finite input"):
        net(torch.full((2, 3, 2, 2), float("nan")))
    other = nn.Sequential(nn.Conv2d(3, 4, 1), BatchOrtho2d(4))
    orthobatch.update_statistics(other, [torch.randn(4, 3, 2, 2)])
    assert other[1].name == "1"


def test_covariance_has_its_gradient():
    x = torch.randn(5, 3, 2, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(orthobatch.covariance, x)
    assert torch.allclose(orthobatch.covariance(x), orthobatch.covariance(x.detach()))
    assert isinstance(orthobatch.whiteness_error(x), float)
