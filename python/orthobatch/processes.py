"""Layers whose statistics are those of the batches of all processes, under DistributedDataParallel."""

import ctypes
import hashlib
import weakref
from typing import Any, Callable, List, Optional

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ._library import functions

_Doubles = ctypes.POINTER(ctypes.c_double)
_Gather = ctypes.CFUNCTYPE(ctypes.c_void_p, _Doubles, ctypes.c_int64, _Doubles)
_Sum = ctypes.CFUNCTYPE(ctypes.c_void_p, _Doubles, ctypes.c_int64)
functions.orthobatch_add_group.argtypes = [ctypes.c_int64, ctypes.c_int64, _Gather, _Sum]
functions.orthobatch_add_group.restype = ctypes.c_int64
functions.orthobatch_remove_group.argtypes = [ctypes.c_int64]
functions.orthobatch_remove_group.restype = None


def _tensor(at: Any, count: int) -> Tensor:
    """The doubles at an address."""
    return torch.frombuffer(ctypes.cast(at, ctypes.POINTER(ctypes.c_double * count)).contents, dtype=torch.double)


class Group:
    """A process group as layers hold it: None is all processes. Copies share it; of a pickle, it is all processes."""

    def __init__(self, group: Any = None) -> None:
        self.group = group
        self._made_for: Any = None  # weak: it may be taken down before the layers are
        self._number = 0
        self._kept: List[Any] = []

    @staticmethod
    def of(group: Any) -> Optional["Group"]:
        return group if group is None or isinstance(group, Group) else Group(group)

    def __deepcopy__(self, memo: Any) -> "Group":
        return self

    def __reduce__(self) -> Any:
        return Group, ()

    def number(self) -> int:
        """What stands for the group in a layer's text; 0 where this process is alone."""
        if not (dist.is_available() and dist.is_initialized()):
            return 0
        group = dist.distributed_c10d._get_default_group() if self.group is None else self.group
        size = dist.get_world_size(group)
        if size == 1:
            return 0
        if self._made_for is None or self._made_for() is not group:
            self._add(weakref.ref(group), dist.get_rank(group), size)
        return self._number

    def _add(self, group: Any, rank: int, size: int) -> None:
        kept: List[Any] = []

        def guarded(work: Callable[..., None]) -> Callable[..., Optional[int]]:
            def run(*arguments: Any) -> Optional[int]:
                try:
                    work(*arguments)
                    return None
                except Exception as error:
                    kept[2:] = [ctypes.create_string_buffer(str(error).encode())]
                    return ctypes.addressof(kept[2])

            return run

        def gather(own: Any, count: int, into: Any) -> None:
            dist.all_gather(list(_tensor(into, size * count).chunk(size)), _tensor(own, count), group=group())

        def add(values: Any, count: int) -> None:
            dist.all_reduce(_tensor(values, count), group=group())

        kept += [_Gather(guarded(gather)), _Sum(guarded(add))]
        self._made_for, self._kept = group, kept
        self._number = functions.orthobatch_add_group(rank, size, *kept)
        weakref.finalize(self, functions.orthobatch_remove_group, self._number).atexit = False


def convert_sync(module: nn.Module, process_group: Optional[Any] = None) -> nn.Module:
    """Every BatchOrtho layer of a net shares its statistics with the processes of the group from now on.

    As torch's ``convert_sync_batchnorm``, in place. Use it before DistributedDataParallel. All processes call it with
    the same net, and each raises where one has other layers.

    Args:
        module: the net.
        process_group: of torch.distributed; None: all processes.

    >>> net = DistributedDataParallel(orthobatch.convert_sync(net))
    """
    from .tools import layers_of

    found = layers_of(module)
    text = "\n".join(f"{path} {m.spec} {m.num_features} {m.sample_stride}" for path, m in found)
    digest = hashlib.sha256(text.encode()).digest()
    # Of one size whatever a process has: collectives of unequal sizes end it.
    own = torch.tensor([len(found)] + list(digest), dtype=torch.long)
    ranks = [torch.empty_like(own) for _ in range(dist.get_world_size(process_group))]
    dist.all_gather(ranks, own, group=process_group)
    for rank, other in enumerate(ranks):
        if not torch.equal(other, ranks[0]):
            raise RuntimeError(
                f"convert_sync: expected the same layers in all processes, but rank {rank} has others than rank 0 "
                f"({int(other[0])} layers against {int(ranks[0][0])})"
            )
    group = Group(process_group)
    for _, layer in found:
        layer.process_group = group
    return module
