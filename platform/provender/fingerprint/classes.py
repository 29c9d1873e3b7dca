"""Shapes of classes: what a class of the user says, attribute by attribute."""

from __future__ import annotations

import sys
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final

from provender.fingerprint import origin
from provender.fingerprint.encoding import MAPPING, SEQUENCE, atom
from provender.fingerprint.functions import Parts, is_memo, qualified
from provender.fingerprint.graph import Shape

if TYPE_CHECKING:
    from provender.fingerprint.graph import Walker

_DERIVED: Final = frozenset(
    {
        "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__",
        "__annotations_cache__", "__attrs_attrs__", "__attrs_own_setattr__", "__attrs_props__",
        "__class_getitem__", "__class_vars__", "__classcell__", "__closed__",
        "__dataclass_fields__", "__dataclass_params__", "__dict__", "__doc__", "__extra_items__",
        "__firstlineno__", "__match_args__", "__module__", "__mutable_keys__",
        "__non_callable_proto_members__", "__optional_keys__", "__orig_bases__", "__parameters__",
        "__private_attributes__", "__protocol_attrs__", "__qualname__", "__readonly_keys__",
        "__replace__", "__required_keys__", "__signature__", "__static_attributes__",
        "__subclasshook__", "__type_params__", "__weakref__", "_abc_impl", "_is_protocol",
        "_is_runtime_protocol", "model_computed_fields", "model_fields", "__fields__",
    }
)  # fmt: skip
"""Names in a class body that Python or a library derived from the rest."""

_ENUM_DERIVED: Final = frozenset(
    {
        "_member_map_", "_member_names_", "_member_type_", "_new_member_", "_unhashable_values_",
        "_unhashable_values_map_", "_hashable_values_", "_use_args_", "_value2member_map_",
        "_value_repr_", "_generate_next_value_", "__new__", "_boundary_", "_flag_mask_",
        "_singles_mask_", "_all_bits_", "_inverted_", "__new_member__", "__format__", "__repr__",
        "__str__", "__reduce_ex__", "__or__", "__and__", "__xor__", "__ror__", "__rand__",
        "__rxor__", "__invert__",
    }
)  # fmt: skip

_PLACES: Final = (GetSetDescriptorType, MemberDescriptorType)


def class_origin(cls: type) -> origin.Origin:
    """Where a class was written: by name only if an installed module holds it under its name."""
    name = cls.__module__
    module = sys.modules.get(name) if isinstance(name, str) else None
    if module is None:
        return origin.USER
    place = origin.of_module_name(name)
    if place.is_user or not cls.__flags__ & 1 << 9:
        return place
    value: Any = module
    for part in cls.__qualname__.split("."):
        value = getattr(value, part, None)
    if value is cls or _hidden(cls, getattr(module, "__file__", None)):
        return place
    return origin.USER


def _hidden(cls: type, filename: object) -> bool:
    """Whether the class has code in the file of its module, though not under its own name."""
    return any(
        isinstance(value, FunctionType) and value.__code__.co_filename == filename
        for value in vars(cls).values()
    )


def class_shape(cls: type, walker: Walker) -> Shape:
    """A class: the user's by bases and attributes, others by distribution and version."""
    place = class_origin(cls)
    filename = getattr(sys.modules.get(cls.__module__ or ""), "__file__", None)
    walker.saw(place, filename)
    if not place.is_user:
        name = f"{cls.__module__}.{cls.__qualname__}"
        items = [name, f"{place.name} {place.version}"]
        labels = ["name", "distribution"]
        return Shape(atom("installed class"), SEQUENCE, items, "installed", labels=labels)
    parts = Parts()
    bases = [base for base in cls.__bases__ if base is not object]
    if bases:
        parts.add("bases", "bases", tuple(bases))
    if type(cls) is not type:
        parts.add("metaclass", "metaclass", type(cls))
    for name, value in class_attributes(cls):
        parts.add(name, attribute_label(cls, name, value), value)
    title = qualified(cls.__module__, cls.__qualname__)
    return Shape(atom("class"), MAPPING, parts.items, "class", labels=parts.labels, title=title)


def attribute_label(cls: type, name: str, value: object) -> str:
    """``method f``, ``attribute K`` ..., as people see it."""
    kind = "method" if callable(getattr(value, "__get__", None)) else "attribute"
    return f"{kind} {name}"


def class_attributes(cls: type) -> list[tuple[str, Any]]:
    """Names and values of a user class that count, with what its kind adds (fields, members)."""
    space = vars(cls)
    generated = "__dataclass_fields__" in space or "__attrs_attrs__" in space
    skipped = _DERIVED
    found: list[tuple[str, Any]] = []
    if "_member_map_" in space:
        skipped = _DERIVED | _enum_noise(cls) | set(space["_member_map_"])
        # Inside the class a member is its value; as an object of its own it names its class.
        members = [(name, member._value_) for name, member in space["_member_map_"].items()]
        found.append(("members", members))
    elif issubclass(cls, tuple) and "_fields" in space:
        generated = True
        skipped = _DERIVED | set(space["_fields"]) | {"__new__"}
    elif "__pydantic_core_schema__" in space or "__pydantic_fields__" in space:
        found += _pydantic(cls)
    if "__dataclass_fields__" in space:
        found += _dataclass(cls)
    if "__attrs_attrs__" in space:
        found.append(("fields", [_attrs_field(a) for a in space["__attrs_attrs__"]]))
    if "__total__" in space and "__required_keys__" in space:
        found.append(("keys", dict(_annotations(cls))))
    for name, value in space.items():
        if name in skipped or isinstance(value, _PLACES) or name.startswith("__pydantic"):
            continue
        if generated and _is_generated(value):
            continue
        if not is_memo(name, value):
            found.append((name, value))
    return found


def _enum_noise(cls: type) -> frozenset[str]:
    """Names that `enum` put into the class; those the user wrote have code in a file of theirs."""
    return frozenset(
        name
        for name in _ENUM_DERIVED
        if not isinstance(
            f := getattr(vars(cls).get(name), "__func__", vars(cls).get(name)), FunctionType
        )
        or not origin.of_file(f.__code__.co_filename).is_user
    )


def _is_generated(value: Any) -> bool:
    """Methods that dataclasses, attrs and namedtuple wrote: their fields say it all."""
    function = getattr(value, "__func__", value)
    function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    return code is not None and (
        code.co_filename.startswith("<") and not code.co_filename.startswith("<ipython")
    )


def _annotations(cls: type) -> list[tuple[str, str]]:
    raw = vars(cls).get("__annotations__") or getattr(cls, "__annotations__", {})
    return [(name, _type_text(kind)) for name, kind in raw.items()]


def _type_text(kind: Any) -> str:
    if isinstance(kind, str):
        return kind
    if isinstance(kind, type) and not hasattr(kind, "__args__"):
        return kind.__qualname__
    return str(kind).replace("typing.", "")


def _dataclass(cls: type) -> list[tuple[str, Any]]:
    space = vars(cls)
    fields = []
    for name, item in space["__dataclass_fields__"].items():
        fields.append(
            (
                name,
                _given(item.default),
                _given(item.default_factory),
                item.init,
                item.repr,
                item.hash,
                item.compare,
                bool(item.kw_only),
                dict(item.metadata),
                str(item._field_type),
            )
        )
    params = space.get("__dataclass_params__")
    names = ("init", "repr", "eq", "order", "unsafe_hash", "frozen", "kw_only", "slots")
    return [
        ("fields", fields),
        ("dataclass", [bool(getattr(params, name, False)) for name in names]),
    ]


def _given(value: Any) -> Any:
    if type(value).__name__ == "_MISSING_TYPE":
        return ("none",)
    return ("is", value)


def _attrs_field(item: Any) -> Any:
    default = item.default
    if type(default).__name__ == "Factory":
        default = ("factory", default.factory, default.takes_self)
    elif str(default) == "NOTHING":
        default = ("none",)
    return (
        item.name, default, item.validator, item.converter, item.init, item.eq, item.kw_only,
        dict(item.metadata),
    )  # fmt: skip


def _pydantic(cls: type) -> list[tuple[str, Any]]:
    fields = getattr(cls, "__pydantic_fields__", None) or {}
    described = {}
    for name, item in fields.items():
        described[name] = (
            _annotation(item.annotation),
            None if str(item.default) == "PydanticUndefined" else ("is", item.default),
            item.default_factory,
            item.alias,
            list(item.metadata),
        )
    found: list[tuple[str, Any]] = [("fields", described)]
    private = vars(cls).get("__private_attributes__")
    if private:
        found.append(("private", {name: str(item) for name, item in private.items()}))
    return found


def _annotation(kind: Any) -> Any:
    """A type that pydantic acts upon: by content where it is a class, else by its text."""
    if isinstance(kind, type) and not hasattr(kind, "__args__"):
        return kind
    args = getattr(kind, "__args__", None)
    if args:
        origin_ = getattr(kind, "__origin__", type(kind))
        return [_type_text(origin_), [_annotation(arg) for arg in args]]
    return _type_text(kind)
