"""Nothing in a file can run code, and nothing in a policy file can surprise the loader."""

import ast
import hashlib
import json
import os
import random
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import geoact
from geoact import runtime
from geoact.errors import InputError

from .test_golden import POLICIES

PACKAGE = Path(geoact.__file__).parent
MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "joblib",
    "marshal",
    "shelve",
    "yaml",
    "torch",
}
CALLS = {"eval", "exec", "compile", "__import__"}


def dangers(source: str) -> list[str]:
    """What in a module could turn data into code."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            found.append(str(node.module))
        elif isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if name in CALLS:
                found.append(f"{name}()")
            found += [k.arg for k in node.keywords if k.arg == "allow_pickle" and not _is_false(k.value)]
            if isinstance(node.func, ast.Attribute) and node.func.attr in (
                "read_pickle",
                "unpickle",
                "loadtxt",
            ):
                found.append(node.func.attr)
    return found


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_module_can_turn_data_into_code(path):
    assert dangers(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import torch.serialization",
        "import yaml",
        "eval('1')",
        "x = np.load(f, allow_pickle=True)",
        "np.load(f, allow_pickle=flag)",
        "def f():\n    import marshal",
    ],
)
def test_the_scan_finds_what_it_looks_for(source):
    assert dangers(source)


# Fuzzing. A mutation is bytes of the two files; the hash in policy.json is made to fit half of the time, so that
# the tensors' parser is reached and not only the hash check.

NASTY: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 1e308, -0.0, float("nan"), float("inf"), "", "x" * 5000,
    "__import__('os').system('true')", "../../etc/passwd", [], {}, [[[]]], [1, 2], {"a": 1}, [None], "\x00", "softplus",
]  # fmt: skip


def mutate_json(data: Any, rng: random.Random) -> Any:
    """Replace, drop or add something at a random place."""
    data = json.loads(json.dumps(data))
    place, keys = data, list(data)
    while True:
        key = rng.choice(keys)
        inner = place[key]
        if isinstance(inner, (dict, list)) and inner and rng.random() < 0.7:
            place, keys = inner, list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            continue
        choice = rng.random()
        if choice < 0.7:
            place[key] = rng.choice(NASTY)
        elif choice < 0.85:
            del place[key]
        elif isinstance(place, dict):
            place[str(rng.choice(NASTY))[:50]] = rng.choice(NASTY)
        else:
            place.append(rng.choice(NASTY))
        return data


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip, cut, insert or repeat."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 4, 20))):
        at = rng.randrange(len(out)) if out else 0
        choice = rng.randrange(5)
        if choice == 0 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif choice == 1:
            del out[at : at + rng.choice((1, 8, 100, 5000))]
        elif choice == 2:
            out[at:at] = rng.randbytes(rng.choice((1, 8, 64)))
        elif choice == 3:
            out[at : at + 8] = struct.pack("<Q", rng.choice((0, 1, 2**31, 2**63, 2**64 - 1, len(out))))
        else:
            out[at:at] = out[at : at + rng.choice((1, 16, 256))]
    return bytes(out)


def mutate_header(tensors: bytes, rng: random.Random) -> bytes:
    """A structural change in the safetensors header."""
    size = int.from_bytes(tensors[:8], "little")
    header = json.dumps(mutate_json(json.loads(tensors[8 : 8 + size]), rng)).encode()
    return struct.pack("<Q", len(header)) + header + tensors[8 + size :]


def mutations(folders: list[Path], count: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
    """policy.json and policy.safetensors, each time spoiled anew."""
    rng = random.Random(seed)
    originals = [((f / "policy.json").read_bytes(), (f / "policy.safetensors").read_bytes()) for f in folders]
    for _ in range(count):
        spec, tensors = rng.choice(originals)
        choice = rng.randrange(4)
        if choice == 0:
            yield mutate_bytes(spec, rng), tensors
            continue
        data = json.loads(spec)
        if choice == 1:
            yield json.dumps(mutate_json(data, rng)).encode(), tensors
            continue
        tensors = mutate_bytes(tensors, rng) if choice == 2 else mutate_header(tensors, rng)
        if rng.random() < 0.9:
            data["tensors"] |= {"size": len(tensors), "sha256": hashlib.sha256(tensors).hexdigest()}
        yield json.dumps(data).encode(), tensors


class Watch:
    """An audit hook, switched on while a file is loaded."""

    FORBIDDEN = (
        "exec",
        "compile",
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.fork",
        "ctypes",
        "socket.",
        "pickle.",
    )

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self.on and event.startswith(self.FORBIDDEN):
            code = getattr(args[0], "co_filename", "") if args else ""
            self.seen.append(f"{event} {code}")


def fuzz(folder: Path, count: int, seed: int) -> tuple[int, float]:
    """Load mutated policies; how many loaded after all, and the longest time one took."""
    folder.mkdir()
    for path in POLICIES:
        runtime.load(path)(
            np.zeros(runtime.load(path).spec.obs_dim)
        )  # everything is imported before the watch
    watch, loaded, longest = Watch(), 0, 0.0
    for number, (spec, tensors) in enumerate(mutations(POLICIES, count, seed)):
        (folder / "policy.json").write_bytes(spec)
        (folder / "policy.safetensors").write_bytes(tensors)
        started = time.perf_counter()
        watch.on = True
        try:
            policy = runtime.load(folder)
            with np.errstate(all="ignore"):
                policy(np.zeros(policy.spec.obs_dim, np.float32))
            loaded += 1
        except InputError:
            pass
        except Exception as error:
            raise AssertionError(
                f"mutation {number} of seed {seed}: {type(error).__name__} {error}"
            ) from error
        finally:
            watch.on = False
        longest = max(longest, time.perf_counter() - started)
        assert watch.seen == [], f"mutation {number} of seed {seed} ran {watch.seen}"
        assert longest < 5.0, f"mutation {number} of seed {seed} took {longest:.1f} s"
    return loaded, longest


def memory_folder(tmp_path: Path) -> Path:
    return (
        (Path("/dev/shm") / f"geoact-fuzz-{os.getpid()}")
        if os.access("/dev/shm", os.W_OK)
        else tmp_path / "fuzz"
    )


def _fuzz_clean(tmp_path: Path, count: int, seed: int) -> tuple[int, float]:
    import shutil

    folder = memory_folder(tmp_path)
    try:
        return fuzz(folder, count, seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_mutated_policies_meet_only_our_own_error(tmp_path):
    loaded, _ = _fuzz_clean(tmp_path, 3000, seed=1)
    assert loaded < 1500  # mutations that matter are not let through


@pytest.mark.slow
def test_a_hundred_thousand_mutated_policies_meet_only_our_own_error(tmp_path):
    loaded, longest = _fuzz_clean(tmp_path, 100_000, seed=2)
    print(f"policy fuzz: 100,000 mutations, {loaded} still whole, the slowest took {1e3 * longest:.1f} ms")
