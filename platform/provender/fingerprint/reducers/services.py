"""Reducers for handles to outside services and for configuration: file systems, engines, models.

Credentials do not count: they decide who may read, not what is read.
"""

from __future__ import annotations

import re
from typing import Any, Final

from provender.fingerprint.registry import ship

_NOT_CONTENT: Final = re.compile(
    r"(token|secret|password|passwd|key|access_?key|api_?key|credentials?|session|loop"
    r"|asynchronous|skip_instance_cache|use_listings_cache|listings_expiry_time|max_paths"
    r"|cache_timeout|timeout|retries|batch_size|block_size|requests_timeout|session_kwargs)",
    re.I,
)


@ship("fsspec.spec.AbstractFileSystem")
def file_system(obj: Any) -> object:
    """Protocol and the options that say where it points; caches and credentials do not count."""
    options = {k: v for k, v in obj.storage_options.items() if not _NOT_CONTENT.fullmatch(k)}
    protocol = obj.protocol
    positional = [a for a in getattr(obj, "storage_args", ()) if not isinstance(a, (bytes, type))]
    return [
        [protocol] if isinstance(protocol, str) else list(protocol),
        positional,
        options,
    ]


@ship("upath.core.UPath", "upath.core._UPathMixin")
def universal_path(obj: Any) -> object:
    """The path with its protocol, and where its file system points."""
    options = {k: v for k, v in obj.storage_options.items() if not _NOT_CONTENT.fullmatch(k)}
    return [obj.protocol, str(obj), options]


@ship("sqlalchemy.engine.base.Engine")
def engine(obj: Any) -> object:
    """The URL without its password."""
    return url(obj.url)


@ship("sqlalchemy.ext.asyncio.engine.AsyncEngine")
def async_engine(obj: Any) -> object:
    """As the engine below it."""
    return url(obj.sync_engine.url)


@ship("sqlalchemy.engine.url.URL")
def url(obj: Any) -> object:
    """All parts but the password."""
    query = {k: v for k, v in obj.query.items() if not _NOT_CONTENT.fullmatch(k)}
    return [obj.drivername, obj.username, obj.host, obj.port, obj.database, query]


@ship("sqlalchemy.orm.session.sessionmaker", "sqlalchemy.orm.session.Session")
def session(obj: Any) -> object:
    """What it is bound to."""
    return getattr(obj, "kw", {}).get("bind", getattr(obj, "bind", None))


@ship("sqlalchemy.sql.schema.MetaData")
def metadata(obj: Any) -> object:
    """Tables in order of name."""
    return [obj.schema, [table(obj.tables[name]) for name in sorted(obj.tables)]]


@ship("sqlalchemy.sql.schema.Table")
def table(obj: Any) -> object:
    """Columns with their types, keys and references."""
    columns = [
        (
            column.name,
            str(column.type),
            column.nullable,
            column.primary_key,
            sorted(key.target_fullname for key in column.foreign_keys),
        )
        for column in obj.columns
    ]
    return [obj.fullname, columns]


@ship("pydantic.main.BaseModel")
def model(obj: Any) -> object:
    """Field values, extra values and private attributes."""
    parts: dict[str, Any] = dict(obj.__dict__)
    extra = getattr(obj, "__pydantic_extra__", None)
    private = getattr(obj, "__pydantic_private__", None)
    return parts if not extra and not private else [parts, extra or {}, private or {}]


@ship("pydantic.types._SecretBase")
def secret(obj: Any) -> object:
    """The value counts; trees show nothing of it."""
    from hashlib import blake2b

    value = obj.get_secret_value()
    raw = value if isinstance(value, bytes) else str(value).encode()
    return blake2b(raw, digest_size=20).digest()


@ship("pydantic.fields.FieldInfo")
def field(obj: Any) -> object:
    """Type, default and constraints."""
    return [str(obj.annotation), str(obj.default), obj.default_factory, list(obj.metadata)]
