"""Reducers for numpy, scipy's sparse matrices and jax arrays."""

from __future__ import annotations

from typing import Any

from provender.fingerprint.encoding import LONG, digest
from provender.fingerprint.registry import ship


@ship("numpy.ndarray")
def array(obj: Any) -> object:
    """dtype, shape and the bytes in C order; a view equals its copy. Objects one by one."""
    import numpy as np

    obj = np.asarray(obj)
    if obj.dtype.hasobject:
        return [dtype(obj.dtype), obj.shape, obj.reshape(-1).tolist()]
    if obj.nbytes <= LONG:
        return [dtype(obj.dtype), obj.shape, obj.tobytes()]
    flat = np.ascontiguousarray(obj).reshape(-1).view(np.uint8)
    return [dtype(obj.dtype), obj.shape, digest(flat.data)]


@ship("numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray")
def masked(obj: Any) -> object:
    """Values (zero where masked), mask and fill value."""
    import numpy as np

    mask = np.ma.getmaskarray(obj)
    return [array(np.where(mask, np.zeros(1, obj.dtype), obj.data)), array(mask), obj.fill_value]


@ship("numpy.dtype")
def dtype(obj: Any) -> object:
    """The array-protocol text; fields of a structured type with their offsets."""
    if obj.names is None:
        return [obj.str, list(obj.subdtype[1]) if obj.subdtype else None]
    return [(name, dtype(obj.fields[name][0]), obj.fields[name][1]) for name in obj.names]


@ship("numpy.generic")
def scalar(obj: Any) -> object:
    """dtype and value."""
    if obj.dtype.hasobject or obj.dtype.names:
        return [dtype(obj.dtype), obj.item()]
    return [obj.dtype.str, obj.tobytes()]


@ship("numpy.random._generator.Generator")
def generator(obj: Any) -> object:
    """The state of its bit generator."""
    return bit_generator(obj.bit_generator)


@ship("numpy.random.bit_generator.BitGenerator")
def bit_generator(obj: Any) -> object:
    """Algorithm and state."""
    return obj.state


@ship("numpy.random.mtrand.RandomState")
def random_state(obj: Any) -> object:
    """Algorithm and state."""
    return obj.get_state(legacy=False)


@ship("numpy._ArrayFunctionDispatcher", "numpy.ufunc")
def function(obj: Any) -> object:
    """Functions made in C, by name; numpy's version counts through their type."""
    return [getattr(obj, "__module__", "numpy"), obj.__name__]


@ship("scipy.sparse._base._spbase", "scipy.sparse._base.spmatrix")
def sparse(obj: Any) -> object:
    """Format, shape and the sorted coordinates with their values."""
    import numpy as np

    coo = obj.tocoo(copy=True)
    coo.sum_duplicates()
    order = np.lexsort((coo.col, coo.row))
    return [obj.format, obj.shape, coo.row[order], coo.col[order], coo.data[order]]


@ship("jaxlib._jax.ArrayImpl", "jaxlib.xla_extension.ArrayImpl", "jax._src.array.ArrayImpl")
def jax_array(obj: Any) -> object:
    """The values on the host; where they live does not count."""
    import numpy as np

    return array(np.asarray(obj))


@ship("jaxlib._jax.PjitFunction", "jaxlib.xla_extension.PjitFunction")
def jitted(obj: Any) -> object:
    """The function that was compiled."""
    return obj.__wrapped__
