"""State dicts to and from C++: torch::save and torch::load write and read TorchScript archives."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Any, Union

import torch
from torch import Tensor, nn

from .modules import BatchOrthoLayer

Path = Union[str, "os.PathLike[str]"]


def load_archive(path: Path) -> "OrderedDict[str, Tensor]":
    """The state dict of a module that C++ wrote with torch::save, for ``load_state_dict``; with the specs in it."""
    path = os.fspath(path)
    try:
        module: Any = torch.jit.load(path, map_location="cpu")
    except RuntimeError as error:
        first = str(error).split("\n")[0]
        raise RuntimeError(
            f"load_archive: expected an archive of torch::save or save_archive in {path}: {first}"
        ) from error
    state: Any = OrderedDict(module.state_dict())
    state._metadata = OrderedDict()
    for name, part in module.named_modules():
        spec = getattr(part, "spec", None)
        if isinstance(spec, str):
            state._metadata[name] = {"version": BatchOrthoLayer._version, "spec": spec}
    return state


class _Holder(nn.Module):
    """The parameters, buffers and children of a module, and nothing else."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        for name, p in module._parameters.items():
            self.register_parameter(name, p)
        for name, b in module._buffers.items():
            if name not in module._non_persistent_buffers_set:
                self.register_buffer(name, b)
        for name, child in module._modules.items():
            if child is not None:
                self.add_module(name, _Holder(child))
        if isinstance(module, BatchOrthoLayer):
            self.spec = module.spec


def save_archive(module: nn.Module, path: Path) -> None:
    """Writes what torch::load in C++ reads into a module whose parts have the same names."""
    path = os.fspath(path)
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.path.isdir(folder):
        raise FileNotFoundError(f"save_archive: expected a file in a folder that exists, got '{path}'")
    holder = torch.jit.script(_Holder(module))
    temporary = os.path.join(folder, f"orthobatch-{os.getpid()}-{os.path.basename(path)}.tmp")
    try:
        torch.jit.save(holder, temporary)
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
