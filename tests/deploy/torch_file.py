"""Write files in the format of `torch.save`, byte for byte, from the format alone: no PyTorch, no pickle.

`Pickler` emits protocol 2 as Python's does for the few types a checkpoint holds, with tensors as PyTorch
reduces them; `archive` lays the entries out as PyTorch's zip writer does (stored, data aligned to 64 bytes by
padding in the extra field "FB", sizes in data descriptors, zip64 records at the end). Every part can be given
wrong on purpose, which is how the tests of the reader make their hostile files.
"""

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

STORAGES = {
    "f8": "DoubleStorage",
    "f4": "FloatStorage",
    "f2": "HalfStorage",
    "i8": "LongStorage",
    "i4": "IntStorage",
    "i2": "ShortStorage",
    "i1": "CharStorage",
    "u1": "ByteStorage",
    "b1": "BoolStorage",
}


@dataclass(frozen=True, eq=False)
class Name:
    """A global, pickled as its module and name."""

    module: str
    name: str


REBUILD_TENSOR = Name("torch._utils", "_rebuild_tensor_v2")
REBUILD_PARAMETER = Name("torch._utils", "_rebuild_parameter")
ORDERED_DICT = Name("collections", "OrderedDict")
ARGS = Name("__main__", "Args")


@dataclass(eq=False)
class Tensor:
    """A view of a flat storage; what is left out is that of a contiguous tensor."""

    storage: np.ndarray
    offset: Any = 0
    shape: Any = None
    strides: Any = None
    length: Any = None
    """Number of elements that the pickle claims."""
    location: str = "cpu"
    parameter: bool = False


@dataclass(eq=False)
class StateDict:
    """An OrderedDict with the attribute that PyTorch gives to the state of a module."""

    items: Mapping[str, Any]
    metadata: Any = None


@dataclass(eq=False)
class Instance:
    """An object with attributes, of a class that need not exist."""

    attributes: Any
    cls: Name = ARGS


@dataclass(eq=False)
class Call:
    """A function applied to arguments, as `__reduce__` gives it."""

    function: Name
    arguments: tuple[Any, ...]


@dataclass
class Pickler:
    out: bytearray = field(default_factory=bytearray)
    memo: dict[int, int] = field(default_factory=dict)
    keep: list[object] = field(default_factory=list)
    """What the memo knows by identity must not be freed."""
    storages: dict[str, np.ndarray] = field(default_factory=dict)
    names: dict[tuple[str, str], Name] = field(default_factory=dict)

    def dump(self, value: object) -> bytes:
        self.out += b"\x80\x02"
        self.save(value)
        return bytes(self.out + b".")

    def put(self, value: object) -> None:
        index = len(self.memo)
        self.memo[id(value)] = index
        self.keep.append(value)
        self.out += b"q" + bytes([index]) if index < 256 else b"r" + struct.pack("<I", index)

    def save(self, value: Any) -> None:
        if isinstance(value, Name):  # one object per name, however many the caller made
            value = self.names.setdefault((value.module, value.name), value)
        if (index := self.memo.get(id(value))) is not None:
            self.out += b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index)
        elif value is None:
            self.out += b"N"
        elif isinstance(value, bool):
            self.out += b"\x88" if value else b"\x89"
        elif isinstance(value, int):
            self.save_int(value)
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif isinstance(value, str):
            raw = value.encode()
            self.out += b"X" + struct.pack("<I", len(raw)) + raw
            self.put(value)
        elif isinstance(value, tuple):
            self.save_tuple(value)
        elif isinstance(value, list):
            self.out += b"]"
            self.put(value)
            self.save_items([(item,) for item in value], b"a", b"e")
        elif isinstance(value, dict):
            self.out += b"}"
            self.put(value)
            self.save_items(list(value.items()), b"s", b"u")
        elif isinstance(value, Name):
            self.out += f"c{value.module}\n{value.name}\n".encode()
            self.put(value)
        elif isinstance(value, StateDict):
            self.save(ORDERED_DICT)
            self.out += b")R"
            self.put(value)
            self.save_items(list(value.items.items()), b"s", b"u")
            if value.metadata is not None:
                self.save({"_metadata": value.metadata})
                self.out += b"b"
        elif isinstance(value, Instance):
            self.save(value.cls)
            self.out += b")\x81"
            self.put(value)
            self.save(value.attributes)
            self.out += b"b"
        elif isinstance(value, Call):
            self.save(value.function)
            self.save(value.arguments)
            self.out += b"R"
            self.put(value)
        elif isinstance(value, Tensor):
            self.save_tensor(value)
        else:
            raise TypeError(f"cannot write {type(value)}")

    def save_int(self, value: int) -> None:
        if 0 <= value < 1 << 8:
            self.out += b"K" + bytes([value])
        elif 0 <= value < 1 << 16:
            self.out += b"M" + struct.pack("<H", value)
        elif -(1 << 31) <= value < 1 << 31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            self.out += b"\x8a" + bytes([len(raw)]) + raw

    def save_tuple(self, value: tuple[Any, ...]) -> None:
        if not value:
            self.out += b")"
            return
        if len(value) > 3:
            self.out += b"("
        for item in value:
            self.save(item)
        self.out += {1: b"\x85", 2: b"\x86", 3: b"\x87"}.get(len(value), b"t")
        self.put(value)

    def save_items(self, items: list[tuple[Any, ...]], one: bytes, many: bytes) -> None:
        for start in range(0, len(items), 1000):
            batch = items[start : start + 1000]
            self.out += b"(" if len(batch) > 1 else b""
            for item in batch:
                for part in item:
                    self.save(part)
            self.out += many if len(batch) > 1 else one

    def save_tensor(self, tensor: Tensor) -> None:
        if tensor.parameter:
            self.save(REBUILD_PARAMETER)
            self.out += b"("
        array = tensor.storage
        key = next((key for key, other in self.storages.items() if other is array), str(len(self.storages)))
        self.storages[key] = array
        shape = array.shape if tensor.shape is None else tensor.shape
        strides = tensor.strides
        if strides is None:
            strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
        length = array.size if tensor.length is None else tensor.length
        self.save(REBUILD_TENSOR)
        self.out += b"("
        # A fresh text, as PyTorch makes one per storage: it is not memoised across tensors
        location = "".join(list(tensor.location))
        self.save(("storage", Name("torch", STORAGES[array.dtype.str[1:]]), key, location, length))
        self.out += b"Q"
        for part in (tensor.offset, shape, strides, False, StateDict({})):
            # The caller's tuples may be one object (Python shares equal constants); PyTorch's never are
            self.save((*part,) if isinstance(part, tuple) else part)
        arguments = object()
        self.out += b"t"
        self.put(arguments)
        self.out += b"R"
        self.put(tensor)
        if tensor.parameter:
            self.out += b"\x89"
            self.save(StateDict({}))
            self.out += b"tR"


def archive(entries: Mapping[str, bytes], root: str = "archive") -> bytes:
    """A zip of `root/name` -> content, with PyTorch's alignment."""
    out, directory = bytearray(), bytearray()
    for name, content in entries.items():
        raw_name = f"{root}/{name}".encode()
        header = len(out)
        padding = -(header + 30 + len(raw_name) + 4) % 64
        extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
        sizes = struct.pack("<III", zlib.crc32(content), len(content), len(content))
        out += b"PK\3\4" + struct.pack("<HHHHHIIIHH", 0, 0x808, 0, 0, 0, 0, 0, 0, len(raw_name), len(extra))
        out += raw_name + extra + content + b"PK\7\x08" + sizes
        directory += b"PK\1\2" + struct.pack("<HHHHHH", 0, 0, 0x808, 0, 0, 0) + sizes
        directory += struct.pack("<HHHHHII", len(raw_name), 0, 0, 0, 0, 0, header) + raw_name
    start, count, size = len(out), len(entries), len(directory)
    out += directory
    end = len(out)
    out += b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 0x31E, 45, 0, 0, count, count, size, start)
    out += b"PK\6\7" + struct.pack("<IQI", 0, end, 1)
    out += b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, size, start, 0)
    return bytes(out)


def entries_of(value: object, byteorder: str | None = None) -> dict[str, bytes]:
    """The archive's entries for a value: pickle, storages, version."""
    pickler = Pickler()
    entries = {"data.pkl": pickler.dump(value)}
    if byteorder is not None:
        entries["byteorder"] = byteorder.encode()
    order = ">" if byteorder == "big" else "<"
    for key in sorted(pickler.storages):
        array = pickler.storages[key]
        entries[f"data/{key}"] = array.astype(array.dtype.newbyteorder(order)).tobytes()
    return {**entries, "version": b"3\n"}


def torch_save(value: object, root: str = "archive", byteorder: str | None = None) -> bytes:
    return archive(entries_of(value, byteorder), root)
