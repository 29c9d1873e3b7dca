"""``tf.train.Example`` as a protobuf message, without importing TensorFlow.

The messages are those of tensorflow/core/example/{example,feature}.proto, declared here under another
package name, so that they can stand beside TensorFlow's own in one process. The bytes are the same.
"""

from __future__ import annotations

from functools import cache
from typing import Any

_PACKAGE = "provender.example"
LISTS = {"bytes_list": "BytesList", "float_list": "FloatList", "int64_list": "Int64List"}
"""Field of a Feature -> its message, in the order of their field numbers."""


@cache
def example_class() -> Any:
    """The class of the message: ``example_class().FromString(data).features.feature[name]``."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(
        name="provender/example.proto", package=_PACKAGE, syntax="proto3"
    )
    field = descriptor_pb2.FieldDescriptorProto
    kinds = {"BytesList": field.TYPE_BYTES, "FloatList": field.TYPE_FLOAT}

    def add(message: Any, name: str, number: int, kind: Any, **more: Any) -> None:
        more.setdefault("label", field.LABEL_OPTIONAL)
        message.field.add(name=name, number=number, type=kind, **more)

    def add_message(message: Any, name: str, number: int, of: str, **more: Any) -> None:
        add(message, name, number, field.TYPE_MESSAGE, type_name=f".{_PACKAGE}.{of}", **more)

    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, of) in enumerate(LISTS.items(), 1):
        kind = kinds.get(of, field.TYPE_INT64)
        add(file.message_type.add(name=of), "value", 1, kind, label=field.LABEL_REPEATED)
        add_message(feature, name, number, of, oneof_index=0)
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    add(entry, "key", 1, field.TYPE_STRING)
    add_message(entry, "value", 2, "Feature")
    add_message(features, "feature", 1, "Features.FeatureEntry", label=field.LABEL_REPEATED)
    add_message(file.message_type.add(name="Example"), "features", 1, "Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Example"))
