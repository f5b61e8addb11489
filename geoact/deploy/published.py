"""Read the checkpoints that the paper's authors published, without PyTorch and without running a pickle.

Such a file is what `torch.save` writes: a zip archive of stored (uncompressed) entries,

    <name>/data.pkl       a pickle of protocol 2, in which tensors refer to their storages by key
    <name>/data/<key>     the raw numbers of one storage
    <name>/byteorder      "little" or "big" (newer versions; little where absent)

and the pickled object is a dictionary with `model_state_dict` (the actor), `args` (an object whose attributes
are the training configuration), `global_step`, and often critics and optimisers, which are skipped.

A pickle is a program for a stack machine that can call any function there is. This module never gives it to
Python's unpickler: it interprets the opcodes itself, and knows only those that build plain values, and only
the names in an allow-list, which stand for inert records of ours. Nothing is imported, looked up or called by
name; anything else in the file is refused with `FileFormatError`. Every size is bounded: the file, the number
of entries, the pickle (and with it stack and memo), storages against their entries, tensors against their
storages, and the total of what is returned. Nothing recurses over the file's structure.

Actor tensors (weights are `[out, in]`), and the names that a geoact policy gives them:

    backbone.{0,2}.{weight,bias}      obs -> hidden -> hidden        backbone.{0,1}.*
    mu_head.{weight,bias}             hidden -> action_dim           direction.*
    kappa_head.{0,2}.{weight,bias}    hidden -> hidden -> 1          concentration.{0,1}.*
    action_scale, action_bias         the action box                 low = bias - scale, high = bias + scale
"""

import math
import struct
import zlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np

from geoact.config import default_radius
from geoact.errors import FileFormatError, InputError
from geoact.policies import CONCENTRATION_HIDDEN, GeometricHead, NetworkConfig
from geoact.runtime import Policy, PolicySpec

MAX_FILE_BYTES = 1 << 28
"""The published files have up to 5 MB; this leaves room and still fits any machine."""
MAX_PICKLE_BYTES = 1 << 20
MAX_ENTRIES = 10_000
MAX_TENSOR_BYTES = 1 << 28
"""Of all returned tensors together: many tensors may share one storage."""
MAX_DIMENSIONS = 8
MAX_PLAIN_VALUES = 10_000
MAX_PLAIN_DEPTH = 16


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a published file says: the actor's tensors and how it was trained."""

    tensors: dict[str, np.ndarray]
    args: dict[str, object]
    """The training configuration: names to plain values (numbers, strings, None, containers of these)."""
    global_step: int
    """In vector steps, as the paper counts."""


@dataclass(frozen=True, eq=False)
class PolicyFacts:
    """What the tensors and the configuration tell about a policy."""

    env_id: str
    obs_dim: int
    action_dim: int
    hidden_sizes: tuple[int, int]
    """Of the backbone."""
    concentration_hidden_size: int
    action_low: np.ndarray
    """`[action_dim]`, float32."""
    action_high: np.ndarray
    concentration_init: float
    """kappa0 of the published form, `kappa = softplus(20 sigmoid(k/5) - 10 + ln kappa0) + 1e-6`."""


def read_checkpoint(path: str | Path) -> Checkpoint:
    """The actor of a published checkpoint. Whatever the file holds, the only error is an `InputError`."""
    path = Path(path)
    try:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise FileFormatError(
                f"{path}: larger than {MAX_FILE_BYTES >> 20} MiB, no published checkpoint is"
            )
        with path.open("rb") as stream:
            data = stream.read(size)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        return _parse(data)
    except FileFormatError as error:
        raise FileFormatError(f"{path}: not a checkpoint that can be read: {error}") from None


def to_policy_tensors(checkpoint: Checkpoint) -> tuple[dict[str, np.ndarray], PolicyFacts]:
    """The tensors by geoact's names, as float32, and the sizes and action box that they imply."""
    given = checkpoint.tensors
    names = {
        "backbone.0.weight": "backbone.0.weight",
        "backbone.0.bias": "backbone.0.bias",
        "backbone.2.weight": "backbone.1.weight",
        "backbone.2.bias": "backbone.1.bias",
        "mu_head.weight": "direction.weight",
        "mu_head.bias": "direction.bias",
        "kappa_head.0.weight": "concentration.0.weight",
        "kappa_head.0.bias": "concentration.0.bias",
        "kappa_head.2.weight": "concentration.1.weight",
        "kappa_head.2.bias": "concentration.1.bias",
    }
    expected = {*names, "action_scale", "action_bias"}
    if given.keys() != expected:
        differences = sorted(expected - given.keys()), sorted(given.keys() - expected)
        missing, unknown = (", ".join(map(_short, some[:5])) or "none" for some in differences)
        _fail(f"another network than the published actors: missing tensors {missing}; unknown ones {unknown}")

    weights = [name for name in names if name.endswith("weight")]
    for name in weights:
        if given[name].ndim != 2 or given[name].size == 0:
            _fail(f"tensor {name} has shape {given[name].shape}, expected [out, in]")
    first, obs_dim = given["backbone.0.weight"].shape
    second = given["backbone.2.weight"].shape[0]
    action_dim = given["mu_head.weight"].shape[0]
    inner = given["kappa_head.0.weight"].shape[0]
    shapes = {
        "backbone.0.weight": (first, obs_dim),
        "backbone.2.weight": (second, first),
        "mu_head.weight": (action_dim, second),
        "kappa_head.0.weight": (inner, second),
        "kappa_head.2.weight": (1, inner),
        "action_scale": (action_dim,),
        "action_bias": (action_dim,),
    }
    shapes |= {name.replace("weight", "bias"): shapes[name][:1] for name in weights}
    floats = {}
    for name, shape in shapes.items():
        if given[name].shape != shape:
            _fail(f"tensor {name} has shape {given[name].shape}, expected {shape}")
        if given[name].dtype.kind != "f":
            _fail(f"tensor {name} has type {given[name].dtype}, expected floating point numbers")
        with np.errstate(over="ignore"):  # a float64 too large for float32 becomes infinite, and is refused
            floats[name] = given[name].astype(np.float32)
        if not np.isfinite(floats[name]).all():
            _fail(f"tensor {name} has values that are not finite")

    scale, bias = floats["action_scale"], floats["action_bias"]
    with np.errstate(over="ignore"):
        low, high = bias - scale, bias + scale
    if not (np.all(low < high) and np.isfinite(low).all() and np.isfinite(high).all()):
        _fail("action_scale and action_bias do not give a finite box with low < high")
    env_id = checkpoint.args.get("env_id")
    if not isinstance(env_id, str):
        _fail("the configuration names no environment (env_id)")
    kappa0 = checkpoint.args.get("kappa_init", 2.0)
    if not isinstance(kappa0, int | float) or not 0 < kappa0 < math.inf:
        _fail("kappa_init in the configuration is not a positive number")
    facts = PolicyFacts(env_id, obs_dim, action_dim, (first, second), inner, low, high, float(kappa0))
    return {ours: floats[theirs] for theirs, ours in names.items()}, facts


def to_policy(checkpoint: Checkpoint, radius: float | None = None) -> Policy:
    """The policy that the checkpoint holds. The radius is not in the file: 1.0 for Ant, else 2.5, unless given."""
    tensors, facts = to_policy_tensors(checkpoint)
    if radius is None:
        radius = default_radius(facts.env_id)
    if not 0 < radius < math.inf:
        raise InputError(f"radius must be greater than 0, got {radius}")
    if facts.concentration_hidden_size != CONCENTRATION_HIDDEN:
        _fail(
            f"a hidden layer of {facts.concentration_hidden_size} units below the concentration; policies here have "
            f"{CONCENTRATION_HIDDEN}"
        )
    head = GeometricHead(
        radius=radius,
        scale_max=None,
        slack=0,
        concentration="published",
        weight=0.73,  # of a fixed concentration: not used
        normalize_direction=True,
        normalize_mixture=False,
        kappa_init=facts.concentration_init,
    )
    about = {"source": "a checkpoint published with the paper", "vector_steps": checkpoint.global_step}
    about |= {name: checkpoint.args[name] for name in ("seed", "num_envs") if name in checkpoint.args}
    low, high = tuple(facts.action_low.tolist()), tuple(facts.action_high.tolist())
    network = NetworkConfig(tuple(facts.hidden_sizes))
    spec = PolicySpec("geometric", head, network, facts.obs_dim, low, high, "gac", facts.env_id, about=about)
    return Policy(spec, tensors)


def _fail(message: str) -> NoReturn:
    raise FileFormatError(message)


def _parse(data: bytes) -> Checkpoint:
    entries = _zip_entries(data)
    roots = [
        name[: -len("/data.pkl")] for name in entries if name.count("/") == 1 and name.endswith("/data.pkl")
    ]
    if len(roots) != 1:
        _fail(f"expected one <name>/data.pkl in the archive, as torch.save writes it, found {len(roots)}")
    root = roots[0]
    byteorder = bytes(entries.get(f"{root}/byteorder", b"little"))
    if byteorder not in (b"little", b"big"):
        _fail("byteorder is neither little nor big")

    top = _Pickle(bytes(entries[f"{root}/data.pkl"])).run()
    if type(top) is not dict:
        _fail("expected a dictionary with model_state_dict, args and global_step")
    for key in ("model_state_dict", "args", "global_step"):
        if key not in top:
            _fail(f"no {key} in it; expected model_state_dict, args and global_step")
    step, args, state = top["global_step"], top["args"], top["model_state_dict"]
    if type(step) is not int or step < 0:
        _fail("global_step is not a count")
    args = args.attributes if type(args) is _Instance else args
    if type(args) is not dict or not all(type(key) is str for key in args):
        _fail("args is not a configuration: an Args object or a dictionary of names")
    _check_plain(args)
    if type(state) is not dict or not all(type(k) is str and type(v) is _Tensor for k, v in state.items()):
        _fail("model_state_dict is not a dictionary of named tensors")
    tensors, total = {}, 0
    for name, tensor in state.items():
        content = entries.get(f"{root}/data/{tensor.storage.key}")
        if content is None:
            _fail(f"tensor {_short(name)} refers to a storage that is not in the archive")
        total += len(content)
        if total > MAX_TENSOR_BYTES:
            _fail(f"the tensors of model_state_dict take more than {MAX_TENSOR_BYTES >> 20} MiB")
        tensors[name] = _read_tensor(tensor, content, "<" if byteorder == b"little" else ">")
    return Checkpoint(tensors, args, step)


def _check_plain(root: object) -> None:
    """Refuse tensors and classes, cycles, and shared parts that unfold to more than a configuration holds."""
    pending, count = [(root, 0)], 1
    while pending:
        value, depth = pending.pop()
        if type(value) in (dict, list, tuple):
            parts: Any = value.values() if type(value) is dict else value
            count += len(parts)
            if count > MAX_PLAIN_VALUES or depth == MAX_PLAIN_DEPTH:
                _fail("the configuration is too large or too deeply nested")
            pending.extend((part, depth + 1) for part in parts)
        elif value is not None and type(value) not in (bool, int, float, str):
            _fail("the configuration holds something other than plain values")


def _short(text: str) -> str:
    """A name from the file for an error message: one line, whatever it contains."""
    return repr(text if len(text) <= 60 else text[:60] + "...")


# The archive


def _zip_entries(data: bytes) -> dict[str, memoryview]:
    """Name -> content of every entry of a zip archive of stored entries, with checksums verified.

    The central directory is authoritative; each entry must agree with its local header, lie before the
    directory and overlap no other. The 64-bit fields of zip64 are not needed below 4 GiB, and not read.
    """
    end = data.rfind(b"PK\5\6", max(0, len(data) - 22 - 0xFFFF))
    if end < 0 or end + 22 > len(data):
        _fail("not a zip archive (files of torch.save are, since PyTorch 1.6)")
    disk, first_disk, here, count, size, start, comment = struct.unpack_from("<HHHHIIH", data, end + 4)
    if disk or first_disk or here != count or end + 22 + comment != len(data):
        _fail("damaged end of the zip archive")
    if count > MAX_ENTRIES:
        _fail(f"more than {MAX_ENTRIES} entries in the archive")
    if start + size > end:
        _fail("damaged directory of the zip archive")

    view = memoryview(data)
    entries: dict[str, memoryview] = {}
    checksums: dict[str, int] = {}
    spans = []
    position = start
    for _ in range(count):
        if position + 46 > start + size or data[position : position + 4] != b"PK\1\2":
            _fail("damaged directory of the zip archive")
        flags, method = struct.unpack_from("<HH", data, position + 8)
        checksum, packed, length, name_length, extra, note = struct.unpack_from(
            "<IIIHHH", data, position + 16
        )
        (header,) = struct.unpack_from("<I", data, position + 42)
        raw_name = data[position + 46 : position + 46 + name_length]
        position += 46 + name_length + extra + note
        if flags & 1 or method or packed != length:
            _fail("an entry of the archive is compressed or encrypted; torch.save stores entries as they are")
        if header + 30 > start or data[header : header + 4] != b"PK\3\4":
            _fail("an entry of the archive lies outside of it")
        local_name, local_extra = struct.unpack_from("<HH", data, header + 26)
        begin = header + 30 + local_name + local_extra
        if begin + length > start or data[header + 30 : header + 30 + local_name] != raw_name:
            _fail("an entry of the archive does not agree with the directory")
        try:
            name = raw_name.decode()
        except UnicodeDecodeError:
            _fail("an entry of the archive has a name that is not text")
        if name in entries:
            _fail(f"two entries of the archive are called {_short(name)}")
        entries[name] = view[begin : begin + length]
        checksums[name] = checksum
        spans.append((header, begin + length))
    if position != start + size:
        _fail("damaged directory of the zip archive")
    spans.sort()
    if any(before[1] > after[0] for before, after in pairwise(spans)):
        _fail("entries of the archive overlap")
    for name, content in entries.items():  # only now: overlapping entries could make this endless
        if zlib.crc32(content) != checksums[name]:
            _fail(f"wrong checksum of {_short(name)}: the file is damaged")
    return entries


# The pickle


@dataclass(frozen=True)
class _Name:
    """A function or class of the allow-list: a label, to which `_call` gives the only meaning it has here."""

    label: str


@dataclass(frozen=True)
class _StorageType:
    dtype: str


@dataclass(frozen=True)
class _Storage:
    dtype: str
    key: str
    length: int


@dataclass(frozen=True)
class _Tensor:
    """A view of a storage, counted in elements; `_read_tensor` checks that it lies inside."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(eq=False)
class _Instance:
    """The inert stand-in for an object of a class called Args."""

    attributes: dict[Any, Any] | None = None


_ARGS = _Name("Args")
_ORDERED_DICT = _Name("OrderedDict")
_TENSOR = _Name("_rebuild_tensor_v2")
_PARAMETER = _Name("_rebuild_parameter")
_ALLOWED: dict[tuple[str, str], _Name | _StorageType] = {
    ("collections", "OrderedDict"): _ORDERED_DICT,
    ("torch._utils", "_rebuild_tensor_v2"): _TENSOR,
    ("torch._utils", "_rebuild_parameter"): _PARAMETER,
    ("torch", "DoubleStorage"): _StorageType("f8"),
    ("torch", "FloatStorage"): _StorageType("f4"),
    ("torch", "HalfStorage"): _StorageType("f2"),
    ("torch", "LongStorage"): _StorageType("i8"),
    ("torch", "IntStorage"): _StorageType("i4"),
    ("torch", "ShortStorage"): _StorageType("i2"),
    ("torch", "CharStorage"): _StorageType("i1"),
    ("torch", "ByteStorage"): _StorageType("u1"),
    ("torch", "BoolStorage"): _StorageType("?"),
}


class _Pickle:
    """The stack machine, for the opcodes of protocol 2 that build plain values.

    Each opcode takes time and memory in proportion to the bytes and stack items that it consumes (nothing is
    copied by reference), so that the length of the program bounds both.
    """

    def __init__(self, program: bytes):
        self.program = program
        self.at = 0
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []  # the stacks below each open mark
        self.memo: dict[int, Any] = {}

    def run(self) -> object:
        if len(self.program) > MAX_PICKLE_BYTES:
            _fail(f"its pickle is larger than {MAX_PICKLE_BYTES >> 20} MiB")
        if self.take(2) != b"\x80\x02":
            _fail("its pickle is not of protocol 2, which torch.save writes")
        while (opcode := self.take(1)) != b".":
            self.step(opcode)
        if len(self.stack) != 1 or self.marks or self.at != len(self.program):
            _fail("damaged pickle: something is left over at its end")
        return self.stack[0]

    def step(self, opcode: bytes) -> None:
        push = self.stack.append
        match opcode:
            case b"N":
                push(None)
            case b"\x88":
                push(True)
            case b"\x89":
                push(False)
            case b"K":
                push(self.number("<B"))
            case b"M":
                push(self.number("<H"))
            case b"J":
                push(self.number("<i"))
            case b"\x8a":  # a long integer: its length, then its bytes
                length = self.number("<B")
                if length > 8:
                    _fail("an integer of more than 64 bits in the pickle")
                push(int.from_bytes(self.take(length), "little", signed=True))
            case b"G":
                push(self.number(">d"))
            case b"X":
                push(self.text(self.take(self.number("<I"))))
            case b")":
                push(())
            case b"\x85":
                push((self.pop(),))
            case b"\x86":
                push((self.pop(), self.pop())[::-1])
            case b"\x87":
                push((self.pop(), self.pop(), self.pop())[::-1])
            case b"(":
                self.marks.append(self.stack)
                self.stack = []
            case b"t":
                items = self.pop_to_mark()
                self.stack.append(tuple(items))  # not push: that is the stack above the mark
            case b"]":
                push([])
            case b"a":
                self.extend_list([self.pop()])
            case b"e":
                self.extend_list(self.pop_to_mark())
            case b"}":
                push({})
            case b"s":
                self.extend_dict([self.pop(), self.pop()][::-1])
            case b"u":
                self.extend_dict(self.pop_to_mark())
            case b"q":
                self.memo[self.number("<B")] = self.top()
            case b"r":
                self.memo[self.number("<I")] = self.top()
            case b"h":
                push(self.recall(self.number("<B")))
            case b"j":
                push(self.recall(self.number("<I")))
            case b"c":
                module, name = self.line(), self.line()
                if name != "Args" and (module, name) not in _ALLOWED:
                    _fail(
                        f"it names {_short(f'{module}.{name}')}, which is not on the list of harmless names"
                    )
                push(_ARGS if name == "Args" else _ALLOWED[module, name])
            case b"R" | b"\x81":
                arguments, function = self.pop(), self.pop()
                push(_call(function, arguments))
            case b"b":
                self.build(self.pop())
            case b"Q":
                push(_storage(self.pop()))
            case _:
                _fail(f"opcode {opcode!r} in the pickle is not needed for plain values, and refused")

    def take(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.program):
            _fail("damaged pickle: it ends too early")
        return self.program[self.at - count : self.at]

    def number(self, layout: str) -> Any:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def line(self) -> str:
        end = self.program.find(b"\n", self.at, self.at + 256)
        if end < 0:
            _fail("damaged pickle: a name without an end")
        return self.text(self.take(end + 1 - self.at)[:-1])

    def text(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            _fail("damaged pickle: a text that is not UTF-8")

    def top(self) -> Any:
        if not self.stack:
            _fail("damaged pickle: its stack runs empty")
        return self.stack[-1]

    def pop(self) -> Any:
        self.top()
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        if not self.marks:
            _fail("damaged pickle: a mark is missing")
        items, self.stack = self.stack, self.marks.pop()
        return items

    def recall(self, index: int) -> Any:
        if index not in self.memo:
            _fail("damaged pickle: it recalls what it has not stored")
        return self.memo[index]

    def extend_list(self, items: list[Any]) -> None:
        if type(self.top()) is not list:
            _fail("damaged pickle: it appends to something that is not a list")
        self.top().extend(items)

    def extend_dict(self, items: list[Any]) -> None:
        target = self.top()
        if type(target) is not dict or len(items) % 2:
            _fail("damaged pickle: it sets items of something that is not a dictionary")
        for key, value in zip(items[::2], items[1::2]):
            if type(key) not in (str, int):  # all that checkpoints need; hashing a nested tuple would recurse
                _fail("a dictionary key in the pickle is neither a text nor an integer")
            target[key] = value

    def build(self, state: Any) -> None:
        """Give the object on top its attributes."""
        target = self.top()
        if type(state) is not dict:
            _fail("attributes in the pickle are not a dictionary")
        if type(target) is _Instance and target.attributes is None:
            target.attributes = state
        elif (
            type(target) is not dict
        ):  # an OrderedDict's attributes (`_metadata` of a state_dict) are dropped
            _fail("attributes in the pickle for something that takes none")


def _call(function: Any, arguments: Any) -> object:
    """What applying a name of the allow-list to arguments stands for. Nothing is called."""
    match function, arguments:
        case _Name("OrderedDict"), ():
            return {}
        case _Name("Args"), ():
            return _Instance()
        case _Name("_rebuild_parameter"), (_Tensor() as tensor, bool(), dict()):
            return tensor
        case _Name("_rebuild_tensor_v2"), (_Storage() as storage, offset, shape, strides, bool(), dict()):
            if (
                not _counts(shape)
                or not _counts(strides)
                or len(shape) != len(strides)
                or not _counts((offset,))
            ):
                _fail(f"a tensor needs an offset and up to {MAX_DIMENSIONS} sizes and strides, none negative")
            return _Tensor(storage, offset, shape, strides)
        case _:
            _fail("a call in the pickle is not one of those that make tensors, ordered dictionaries and Args")


def _counts(values: Any) -> bool:
    if type(values) is not tuple or len(values) > MAX_DIMENSIONS:
        return False
    return all(type(value) is int and value >= 0 for value in values)


def _storage(reference: Any) -> _Storage:
    match reference:
        case ("storage", _StorageType(dtype), str(key), str(), int(length)) if length >= 0:
            return _Storage(dtype, key, length)  # the device, where it lived in training, does not matter
        case _:
            _fail("a reference in the pickle is not one to a storage")


def _read_tensor(tensor: _Tensor, content: memoryview, order: Literal["<", ">"]) -> np.ndarray:
    """The numbers, in this machine's byte order and in memory of their own."""
    length, dtype = tensor.storage.length, np.dtype(tensor.storage.dtype)
    if length * dtype.itemsize != len(content):
        _fail(
            f"a storage should hold {length} numbers of {dtype.itemsize} bytes, and has {len(content)} bytes"
        )
    last = tensor.offset + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides))
    if not 1 <= math.prod(tensor.shape) <= length or last >= length:
        _fail(
            f"a tensor of shape {tensor.shape} and strides {tensor.strides} is empty or outside its storage"
        )
    # Bytes other than 0 and 1 are no valid Booleans: read them as numbers, and let the cast decide.
    stored = np.dtype("u1") if dtype.kind == "b" else dtype.newbyteorder(order)
    # The stride of an axis of length 1 is never used, and may be anything.
    strides = [
        stride * dtype.itemsize if size > 1 else 0 for size, stride in zip(tensor.shape, tensor.strides)
    ]
    offset = tensor.offset * dtype.itemsize
    return np.ndarray(tensor.shape, stored, content, offset, strides).astype(dtype, order="C")
