"""Images, sound and films: stored as ``{bytes, path}``, decoded when read."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from provender.data.errors import FeatureTypeError, FormatError
from provender.data.features.types import Feature, FeatureType, Value

FILE = pa.struct({"bytes": pa.binary(), "path": pa.string()})
"""How every kind of this module is stored: the file's bytes, or where it lies, or both."""


class _File(Feature):
    """A file that is decoded when it is read."""

    decodes: ClassVar[bool] = True
    encodes: ClassVar[bool] = True
    decode: bool
    what: ClassVar[str] = "file"

    def storage(self) -> pa.DataType:
        return FILE

    @property
    def pa_type(self) -> pa.DataType:
        """The Arrow type."""
        return FILE

    def flatten(self) -> FeatureType:
        """The features that it is made of, where it is not decoded."""
        return self if self.decode else {"bytes": Value("binary"), "path": Value("string")}

    def encode_example(self, value: Any) -> Any:
        """``{"bytes", "path"}`` of a path, of bytes, of such a dict, or of a decoded object.

        Raises:
            FeatureTypeError: it is none of them.
        """
        if value is None:
            return None
        if isinstance(value, str):
            return {"bytes": None, "path": value}
        if isinstance(value, Path):
            return {"bytes": None, "path": str(value.absolute())}
        if isinstance(value, bytes | bytearray | memoryview):
            return {"bytes": bytes(value), "path": None}
        if not isinstance(value, Mapping):
            return self._encode_object(value)
        data, path = value.get("bytes"), value.get("path")
        if data is None and path is None:
            if "array" in value:
                return self._encode_object(value)
            raise FeatureTypeError(
                f"{self.what} needs 'bytes' or 'path', got {sorted(map(str, value))} without either."
            )
        if path is not None and Path(path).is_file():
            return {"bytes": None, "path": path}
        return {"bytes": data, "path": path}

    def _encode_object(self, value: Any) -> dict[str, Any]:
        raise FeatureTypeError(
            f"{type(value).__name__} is not {self.what}.",
            hint="Give a path, the file's bytes, or a dict with 'bytes' or 'path'.",
        )

    def content(self, value: Mapping[str, Any]) -> bytes:
        """The file's bytes, read where only its path is stored.

        Raises:
            FeatureTypeError: neither is stored, or the file is gone.
        """
        if (data := value.get("bytes")) is not None:
            return bytes(data)
        path = value.get("path")
        if path is None:
            raise FeatureTypeError(f"{self.what} has neither bytes nor a path.")
        try:
            if "://" in path:
                import fsspec

                with fsspec.open(path, "rb") as remote:
                    return bytes(remote.read())
            return Path(path).read_bytes()
        except OSError as error:
            raise FeatureTypeError(
                f"{self.what} is stored as a path only, and its file cannot be read: {error}.",
                where=path,
                hint="Put the file back, or store the bytes: {'bytes': ..., 'path': ...}.",
            ) from error

    def _decoding(self) -> None:
        if not self.decode:
            raise FeatureTypeError(
                f"{type(self).__name__}(decode=False) is not decoded.",
                hint=f"ds.cast_column(name, {type(self).__name__}(decode=True))",
            )


@dataclass(eq=True, unsafe_hash=True)
class Image(_File):
    """An image, read as a `PIL.Image.Image`.

    Takes a path, encoded bytes, ``{"bytes", "path"}``, a PIL image, or an array (H, W) or
    (H, W, C) of unsigned bytes, which is stored as PNG.

    Args:
        mode: Pillow mode that images are converted to when read, or None for their own.
        decode: whether reading decodes.
    """

    mode: str | None = None
    decode: bool = True
    id: str | None = field(default=None, repr=False)
    what: ClassVar[str] = "An image"

    def encode_example(self, value: Any) -> Any:
        if isinstance(value, list):
            value = np.asarray(value)
        return super().encode_example(value)

    def _encode_object(self, value: Any) -> dict[str, Any]:
        if isinstance(value, np.ndarray):
            return {"bytes": _array_bytes(value), "path": None}
        if hasattr(value, "save") and hasattr(value, "mode"):
            return encode_image(value)
        if hasattr(value, "__array__"):
            return {"bytes": _array_bytes(np.asarray(value)), "path": None}
        return super()._encode_object(value)

    def decode_example(self, value: Any) -> Any:
        """The image, turned upright as its EXIF orientation says.

        Raises:
            FeatureTypeError: it cannot be read or is not an image.
        """
        self._decoding()
        if not isinstance(value, Mapping):
            return value
        from PIL import ExifTags, ImageOps, UnidentifiedImageError
        from PIL import Image as Pillow

        try:
            image: Any = Pillow.open(io.BytesIO(self.content(value)))
            image.load()
        except (UnidentifiedImageError, OSError) as error:
            raise FeatureTypeError(
                f"An image cannot be decoded: {error}.", where=value.get("path")
            ) from error
        if value.get("bytes") is None:
            image.filename = value["path"]
        if image.getexif().get(ExifTags.Base.Orientation) is not None:
            image = ImageOps.exif_transpose(image)
        return image.convert(self.mode) if self.mode and self.mode != image.mode else image


def encode_image(image: Any) -> dict[str, Any]:
    """``{"bytes", "path"}`` of a Pillow image: in its own format, else PNG, else TIFF.

    An image opened from a file is stored as the path of that file.
    """
    if getattr(image, "filename", ""):
        return {"bytes": None, "path": str(image.filename)}
    from PIL import Image as Pillow

    Pillow.init()
    lossless = "PNG" if image.mode in ("1", "L", "LA", "RGB", "RGBA") else "TIFF"
    known = image.format in Pillow.OPEN and image.format in Pillow.SAVE
    buffer = io.BytesIO()
    image.save(buffer, format=image.format if known else lossless)
    return {"bytes": buffer.getvalue(), "path": None}


_SINGLE_CHANNEL = {"b1", "u1", "u2", "i2", "i4", "f4", "f8"}


def _array_bytes(array: np.ndarray) -> bytes:
    """An array as an image file; nothing is rounded or wrapped to make it fit.

    Raises:
        FeatureTypeError: its type or shape is none that image files have.
    """
    from PIL import Image as Pillow

    code = f"{array.dtype.kind}{array.dtype.itemsize}"
    if (array.ndim == 3 and code != "u1") or (array.ndim == 2 and code not in _SINGLE_CHANNEL):
        small = array.dtype.kind in "iu" and array.size and array.min() >= 0 and array.max() <= 255
        if not small:
            raise FeatureTypeError(
                f"An array {array.shape} of {array.dtype} is not an image.",
                hint="Several channels need uint8; store other tensors as Array3D.",
            )
        array = array.astype(np.uint8)
    if array.ndim not in (2, 3):
        raise FeatureTypeError(
            f"An image has 2 or 3 dimensions, this array has the shape {array.shape}."
        )
    try:
        image = Pillow.fromarray(array)
    except (TypeError, ValueError) as error:
        raise FeatureTypeError(
            f"An array {array.shape} of {array.dtype} is not an image: {error}."
        ) from error
    data = encode_image(image)["bytes"]
    return bytes(data)


@dataclass(eq=True, unsafe_hash=True)
class Audio(_File):
    """Sound, read as ``{"path", "array", "sampling_rate"}`` with float32 samples in [-1, 1].

    Takes a path, encoded bytes, ``{"bytes", "path"}`` or ``{"array", "sampling_rate"}``. WAV files
    of whole numbers are read by Python itself, all else by the ``soundfile`` package.

    Args:
        sampling_rate: Hz that files must have, or None for any.
        decode: whether reading decodes.
        num_channels: 1 mixes channels down; None keeps them, as (channels, samples).
    """

    sampling_rate: int | None = None
    decode: bool = True
    num_channels: int | None = None
    stream_index: int | None = None
    id: str | None = field(default=None, repr=False)
    what: ClassVar[str] = "A sound"

    def _encode_object(self, value: Any) -> dict[str, Any]:
        if isinstance(value, Mapping) and "sampling_rate" in value:
            return {
                "bytes": _wav(np.asarray(value["array"]), int(value["sampling_rate"])),
                "path": None,
            }
        return super()._encode_object(value)

    def decode_example(self, value: Any) -> Any:
        """The samples.

        Raises:
            FeatureTypeError: not a sound, or of another sampling rate than asked for.
            FormatError: the format needs a package that is not installed.
        """
        self._decoding()
        if not isinstance(value, Mapping) or "array" in value:
            return value
        samples, rate = _samples(self.content(value), value.get("path"))
        if self.sampling_rate not in (None, rate):
            raise FeatureTypeError(
                f"A sound has {rate} Hz, Audio(sampling_rate={self.sampling_rate}) was asked for.",
                where=value.get("path"),
                hint="Resample it in a map, or leave sampling_rate out.",
            )
        if self.num_channels == 1 and samples.ndim == 2:
            samples = samples.mean(axis=0, dtype=np.float32)
        return {"path": value.get("path"), "array": samples, "sampling_rate": rate}


def _wav(samples: np.ndarray, rate: int) -> bytes:
    """A 16-bit WAV file of samples (n,) or (channels, n) in [-1, 1]."""
    import wave

    channels = samples.shape[0] if samples.ndim == 2 else 1
    flat = samples.T.reshape(-1) if samples.ndim == 2 else samples
    if flat.dtype.kind == "f":
        flat = np.rint(np.clip(flat, -1, 1) * 32767)
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(flat.astype("<i2").tobytes())
    return buffer.getvalue()


def _samples(data: bytes, path: str | None) -> tuple[np.ndarray, int]:
    import wave

    try:
        with wave.open(io.BytesIO(data)) as sound:
            width, rate, channels = sound.getsampwidth(), sound.getframerate(), sound.getnchannels()
            raw = sound.readframes(sound.getnframes())
        if width in (1, 2, 4):
            flat = np.frombuffer(raw, {1: "u1", 2: "<i2", 4: "<i4"}[width]).astype(np.float32)
            scaled = (flat - 128) / 128 if width == 1 else flat / float(1 << (8 * width - 1))
            scaled = scaled.astype(np.float32)
            return (scaled.reshape(-1, channels).T if channels > 1 else scaled), rate
    except (wave.Error, EOFError):
        pass
    try:
        import soundfile
    except ImportError as error:
        raise FormatError(
            "This sound is not a plain WAV file, and the package 'soundfile' is not installed.",
            where=path,
            hint="pip install soundfile, or read the file's bytes with Audio(decode=False).",
        ) from error
    try:
        samples, rate = soundfile.read(io.BytesIO(data), dtype="float32")
    except (RuntimeError, OSError) as error:
        raise FeatureTypeError(f"A sound cannot be decoded: {error}.", where=path) from error
    return (samples.T if samples.ndim > 1 else samples), int(rate)


@dataclass(eq=True, unsafe_hash=True)
class Video(_File):
    """A film, read as a ``torchcodec`` VideoDecoder; ``decode=False`` reads bytes and path.

    Args:
        decode: whether reading decodes.
    """

    decode: bool = True
    stream_index: int | None = None
    dimension_order: str = "NCHW"
    num_ffmpeg_threads: int = 1
    device: str | None = "cpu"
    seek_mode: str = "exact"
    id: str | None = field(default=None, repr=False)
    what: ClassVar[str] = "A film"

    def decode_example(self, value: Any) -> Any:
        """The decoder.

        Raises:
            FormatError: the package torchcodec is not installed.
        """
        self._decoding()
        if not isinstance(value, Mapping):
            return value
        try:
            from torchcodec.decoders import VideoDecoder
        except ImportError as error:
            raise FormatError(
                "Decoding films needs the package 'torchcodec', which is not installed.",
                hint="pip install torchcodec, or read bytes and path with Video(decode=False).",
            ) from error
        return VideoDecoder(
            self.content(value),
            stream_index=self.stream_index,
            dimension_order=self.dimension_order,
            num_ffmpeg_threads=self.num_ffmpeg_threads,
            device=self.device,
            seek_mode=self.seek_mode,
        )
