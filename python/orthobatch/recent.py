"""Running statistics of the present weights, taken from the last inputs of training when a net turns to evaluation."""

import collections
import contextlib
from typing import Any, Deque, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from .tools import fresh_statistics, layers_of


def _autocasts() -> List[Tuple[str, bool, torch.dtype]]:
    """What autocast does on each kind of device."""
    out = [("cpu", torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype())]
    if torch.cuda.is_available():
        out.append(("cuda", torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()))
    return out


class _Recent:
    """A hook before each call of a net. Copies and pickles of it remember nothing."""

    def __init__(self, batches: int) -> None:
        self.calls: Deque[Any] = collections.deque(maxlen=batches)
        self.changed = False  # since the statistics were taken
        self.busy = False

    def __reduce__(self) -> Any:
        return _Recent, (self.calls.maxlen,)

    def __deepcopy__(self, memo: Any) -> "_Recent":
        return _Recent(self.calls.maxlen or 1)

    def __call__(self, net: nn.Module, args: Tuple[Any, ...], kwargs: Optional[Dict[str, Any]] = None) -> None:
        if self.busy or torch._C._get_tracing_state() is not None:
            return
        if net.training:
            if torch.is_grad_enabled():
                copy = tree_map(lambda t: t.detach().clone() if isinstance(t, Tensor) else t, (args, kwargs or {}))
                self.calls.append((copy, _autocasts()))
                self.changed = True
        elif self.changed:
            self.busy = True
            try:
                self.take(net)
                self.changed = False
            finally:
                self.busy = False

    def take(self, net: nn.Module) -> None:
        devices = {t.device for t in net.buffers() if t.is_cuda}
        with torch.inference_mode(False), torch.random.fork_rng(list(devices)), fresh_statistics(net):
            for (args, kwargs), autocasts in self.calls:
                with contextlib.ExitStack() as stack:
                    for device, enabled, dtype in autocasts:
                        stack.enter_context(torch.autocast(device, enabled=enabled, dtype=dtype))
                    net(*args, **kwargs)


def auto_update_statistics(net: nn.Module, batches: int = 4) -> nn.Module:
    """From now on a net that turns to evaluation takes its running statistics anew, with the weights it has by then.

    Running averages lag behind the weights while these move, most where a layer divides by little. The net remembers
    its last inputs in training; the first call in evaluation after a step runs them through, without gradients, with
    dropout off and the random generators untouched. Equivalent to ``update_statistics(net, last_inputs)`` before each
    evaluation. It costs that many forward passes each time, and copies of that many inputs. Copies and pickles of the
    net remember no inputs until they train. Under DistributedDataParallel give it the net inside; with synchronised
    layers all processes must evaluate. With torch 1.13 keyword arguments of the net are not remembered.

    Args:
        net: whose calls have the inputs; its layers are ours.
        batches: how many inputs it remembers; 0 ends it.

    >>> net = orthobatch.auto_update_statistics(net)
    """
    if batches < 0:
        raise ValueError(f"auto_update_statistics: expected 0 batches or more, got {batches}")
    hooks = net._forward_pre_hooks
    for key in [key for key, hook in hooks.items() if isinstance(hook, _Recent)]:
        del hooks[key]
        getattr(net, "_forward_pre_hooks_with_kwargs", {}).pop(key, None)
    if batches > 0:
        kwargs: Dict[str, Any] = {"with_kwargs": True} if hasattr(net, "_forward_pre_hooks_with_kwargs") else {}
        net.register_forward_pre_hook(_Recent(batches), **kwargs)
        for path, layer in layers_of(net):  # messages say which one they mean
            layer.name = layer.name or path
    return net
