"""Reducers for PyTorch: values and parameters; devices, gradients and hooks do not count."""

from __future__ import annotations

from typing import Any, Final

from provender.fingerprint.registry import ship

_BOOKKEEPING: Final = frozenset(
    {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_is_full_backward_hook",
     "_compiled_call_impl", "_version", "_is_hf_initialized"}
)  # fmt: skip


@ship("torch.Tensor", "torch._tensor.Tensor")
def tensor(obj: Any) -> object:
    """dtype, shape and values, wherever they are; not whether a gradient is kept."""
    import torch

    plain = obj.detach().cpu()
    if plain.layout != torch.strided:
        plain = (
            plain.coalesce() if plain.layout == torch.sparse_coo else plain.to_sparse().coalesce()
        )
        return [str(obj.dtype), tuple(obj.shape), tensor(plain.indices()), tensor(plain.values())]
    flat = plain.resolve_conj().resolve_neg().contiguous().reshape(-1)
    raw = flat.view(torch.uint8).numpy() if flat.numel() else None
    return [str(obj.dtype), tuple(obj.shape), raw]


@ship("torch.nn.modules.module.Module")
def module(obj: Any) -> object:
    """Attributes, parameters, buffers and inner modules, by name in order."""
    attributes = {
        name: value
        for name, value in vars(obj).items()
        if name not in _BOOKKEEPING and "_hooks" not in name
    }
    return [
        attributes,
        {name: value for name, value in obj._parameters.items() if value is not None},
        {name: value for name, value in obj._buffers.items() if value is not None},
        list(obj._modules.items()),
    ]


@ship("torch._dynamo.eval_frame.OptimizedModule")
def compiled(obj: Any) -> object:
    """The module that was compiled."""
    return obj._orig_mod


@ship("torch._C.Generator", "torch.Generator")
def generator(obj: Any) -> object:
    """Its state."""
    return obj.get_state()


@ship("torch.dtype", "torch.device", "torch.layout", "torch.memory_format")
def named(obj: Any) -> object:
    """Its text."""
    return str(obj)


@ship("torch.Size")
def size(obj: Any) -> object:
    """Its numbers."""
    return tuple(obj)
