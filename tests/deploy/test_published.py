"""The reader of published checkpoints: files of the real format, hostile files, and random damage."""

import ast
import json
import re
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geoact.deploy import published
from geoact.deploy.published import Checkpoint, read_checkpoint, to_policy_tensors
from geoact.errors import FileFormatError, InputError
from tests.deploy.torch_file import (
    Call,
    Instance,
    Name,
    Pickler,
    StateDict,
    Tensor,
    archive,
    entries_of,
    torch_save,
)

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT.parent / "shared" / "reference"
# The modules of the actor, in the order in which PyTorch lists them in a state_dict's metadata
MODULES = [
    *("", "backbone", *(f"backbone.{i}" for i in range(4))),
    *("mu_head", "kappa_head", *(f"kappa_head.{i}" for i in range(3))),
]


def actor(obs_dim, action_dim, first=256, second=256, inner=64, limit=1.0, seed=0):
    """Tensors with the names and shapes of the published actors."""
    generator = np.random.default_rng(seed)
    shapes = {
        "backbone.0.weight": (first, obs_dim),
        "backbone.0.bias": (first,),
        "backbone.2.weight": (second, first),
        "backbone.2.bias": (second,),
        "mu_head.weight": (action_dim, second),
        "mu_head.bias": (action_dim,),
        "kappa_head.0.weight": (inner, second),
        "kappa_head.0.bias": (inner,),
        "kappa_head.2.weight": (1, inner),
        "kappa_head.2.bias": (1,),
    }
    box = {
        "action_scale": np.full(action_dim, limit, np.float32),
        "action_bias": np.zeros(action_dim, np.float32),
    }
    return {
        **box,
        **{name: generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()},
    }


def checkpoint_value(tensors, args=None, step=7, **more):
    version = "version"  # one object, as in PyTorch
    modules = {module: {version: 1} for module in MODULES}
    state = {
        name: v if isinstance(v, Tensor) else Tensor(v, location="cuda:0") for name, v in tensors.items()
    }
    attributes = {"env_id": "Ant-v4"} if args is None else args
    return {
        "model_state_dict": StateDict(state, StateDict(modules)),
        **more,
        "args": Instance(attributes),
        "global_step": step,
    }


SMALL = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([1.5, -2.5], np.float32)}


@pytest.fixture
def read(tmp_path):
    def read_bytes(data):
        path = tmp_path / "file.pt"
        path.write_bytes(data)
        return read_checkpoint(path)

    return read_bytes


# Good files


def test_every_part_is_read(read):
    args = {"env_id": "Ant-v4", "seed": 3, "lr": 3e-4, "cuda": True, "entity": None, "big": 1 << 40}
    args |= {"negative": -5, "list": [1, "two"], "tuple": (1, (2.5,)), "dict": {"a": {1: "x"}}, "name": "ä"}
    critic = StateDict({"w": Tensor(np.zeros((300, 3), np.float32))})
    adam = {
        "state": {0: {"step": Tensor(np.array(4, np.float32))}},
        "param_groups": [{"betas": (0.9, 0.999), "lr": 1e-3}],
    }
    found = read(torch_save(checkpoint_value(SMALL, args, 123_456, qf1=critic, optimizer=adam)))
    assert found.args == args and found.global_step == 123_456
    assert found.tensors.keys() == SMALL.keys()
    for name, values in SMALL.items():
        np.testing.assert_array_equal(found.tensors[name], values, strict=True)
        assert found.tensors[name].flags.writeable and found.tensors[name].flags.c_contiguous


def test_args_may_be_a_plain_dictionary_and_of_any_module(read):
    value = checkpoint_value(SMALL)
    assert read(torch_save({**value, "args": {"seed": 1}})).args == {"seed": 1}
    assert read(torch_save({**value, "args": Instance({"seed": 1}, Name("train", "Args"))})).args == {
        "seed": 1
    }


@pytest.mark.parametrize("byteorder", [None, "little", "big"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "?"])
def test_number_types_and_byte_orders(read, dtype, byteorder):
    values = np.array([[0, 1, 2], [3, 100, 1]]).astype(dtype)
    found = read(torch_save(checkpoint_value({"x": values}), byteorder=byteorder))
    np.testing.assert_array_equal(found.tensors["x"], values, strict=True)


def test_views_of_a_shared_storage(read):
    base = np.arange(24, dtype=np.float32)
    views = {
        "transposed": (Tensor(base, 0, (6, 4), (1, 6)), base.reshape(4, 6).T),
        "slice": (Tensor(base, 7, (2, 3), (6, 1)), base.reshape(4, 6)[1:3, 1:4]),
        "scalar": (Tensor(base, 23, (), ()), base[23]),
        "odd stride of a single row": (Tensor(base, 0, (1, 4), (1 << 62, 1)), base[None, :4]),
        "parameter": (Tensor(base, 0, (24,), (1,), parameter=True), base),
    }
    found = read(torch_save(checkpoint_value({name: tensor for name, (tensor, _) in views.items()})))
    for name, (_, expected) in views.items():
        np.testing.assert_array_equal(found.tensors[name], expected)


def test_bytes_that_are_no_booleans_become_true(read):
    entries = entries_of(checkpoint_value({"x": np.array([False, True, True])}))
    entries["data/0"] = bytes([0, 1, 200])
    found = read(archive(entries)).tensors["x"]
    assert found.dtype == bool and found.view(np.uint8).tolist() == [0, 1, 1]


def test_the_writer_of_these_tests_makes_a_sound_zip(tmp_path):
    path = tmp_path / "file.pt"
    path.write_bytes(torch_save(checkpoint_value(SMALL), "some name"))
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        assert file.namelist() == [
            f"some name/{name}" for name in ("data.pkl", "data/0", "data/1", "version")
        ]
        assert file.read("some name/data/0") == SMALL["w"].tobytes()


def test_reads_what_pytorch_writes(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "file.pt"
    tensors = {name: torch.from_numpy(values.copy()) for name, values in SMALL.items()}
    # The class must be importable while it is pickled
    args_class = type("Args", (), {"__module__": "__main__"})
    args = args_class()
    vars(args).update(seed=3, lr=1e-3)
    main = sys.modules["__main__"]
    main.Args = args_class  # type: ignore[attr-defined]
    try:
        torch.save({"model_state_dict": tensors, "args": args, "global_step": 5}, path)
    finally:
        del main.Args  # type: ignore[attr-defined]
    found = read_checkpoint(path)
    assert (found.args, found.global_step) == ({"seed": 3, "lr": 1e-3}, 5)
    for name, values in SMALL.items():
        np.testing.assert_array_equal(found.tensors[name], values, strict=True)


# The published files themselves

PUBLISHED = {"Ant-v4": (27, 8, 500_000), "HalfCheetah-v4": (17, 6, 499_999)}


@pytest.mark.parametrize("env_id", PUBLISHED)
def test_published_files(env_id):
    path = REFERENCE / f"{env_id}_step_500000.pt"
    if not path.exists():
        pytest.skip("the published checkpoints are not here")
    found = read_checkpoint(path)
    obs_dim, action_dim, step = PUBLISHED[env_id]
    tensors, facts = to_policy_tensors(found)
    assert (facts.env_id, facts.obs_dim, facts.action_dim, found.global_step) == (
        env_id,
        obs_dim,
        action_dim,
        step,
    )
    assert facts.hidden_sizes == (256, 256) and facts.concentration_hidden_size == 64
    assert facts.concentration_init == 2.0 and found.args["num_envs"] == 8
    np.testing.assert_array_equal(facts.action_low, np.full(action_dim, -1, np.float32), strict=True)
    np.testing.assert_array_equal(facts.action_high, np.full(action_dim, 1, np.float32), strict=True)
    # Storages are numbered in the order of the actor's tensors, in both files: read two by another way
    with zipfile.ZipFile(path) as file:
        root = file.namelist()[0].split("/")[0]
        first = np.frombuffer(file.read(f"{root}/data/2"), "<f4").reshape(256, obs_dim)
        last = np.frombuffer(file.read(f"{root}/data/10"), "<f4").reshape(1, 64)
    np.testing.assert_array_equal(tensors["backbone.0.weight"], first)
    np.testing.assert_array_equal(tensors["concentration.1.weight"], last)


def test_the_writer_of_these_tests_makes_a_published_file_byte_for_byte():
    path = REFERENCE / "Ant-v4_step_500000.pt"
    if not path.exists():
        pytest.skip("the published checkpoints are not here")
    found = read_checkpoint(path)
    value = checkpoint_value(found.tensors, found.args, found.global_step)
    assert torch_save(value, "Ant-v4_step_500000") == path.read_bytes()


# The policy in them


@pytest.mark.parametrize(
    ("env_id", "obs_dim", "action_dim", "limit"),
    [("Humanoid-v4", 376, 17, 0.4), ("Walker2d-v4", 17, 6, 1.0), ("Pendulum-v1", 3, 1, 2.0)],
)
def test_policies_of_other_tasks(read, env_id, obs_dim, action_dim, limit):
    given_tensors = actor(obs_dim, action_dim, limit=limit)
    tensors, facts = to_policy_tensors(read(torch_save(checkpoint_value(given_tensors, {"env_id": env_id}))))
    assert (facts.env_id, facts.obs_dim, facts.action_dim) == (env_id, obs_dim, action_dim)
    # Gymnasium's float32 boxes have exactly these numbers
    np.testing.assert_array_equal(facts.action_low, np.full(action_dim, -limit, np.float32), strict=True)
    np.testing.assert_array_equal(facts.action_high, np.full(action_dim, limit, np.float32), strict=True)
    assert all(values.dtype == np.float32 for values in tensors.values())


size = st.integers(1, 9)


@settings(max_examples=50, deadline=None)
@given(size, size, size, size, size, st.integers(0, 1000))
def test_any_sizes(obs_dim, action_dim, first, second, inner, seed):
    given_tensors = actor(obs_dim, action_dim, first, second, inner, 0.5, seed)
    given_tensors["action_bias"] = np.linspace(-1, 1, action_dim, dtype=np.float32)
    found = published._parse(torch_save(checkpoint_value(given_tensors, {"env_id": "X-v0", "kappa_init": 3})))
    tensors, facts = to_policy_tensors(found)
    assert (facts.obs_dim, facts.action_dim, facts.hidden_sizes) == (obs_dim, action_dim, (first, second))
    assert (facts.concentration_hidden_size, facts.concentration_init) == (inner, 3.0)
    np.testing.assert_array_equal(facts.action_high - facts.action_low, np.ones(action_dim, np.float32))
    renamed = {
        "backbone.0": "backbone.0",
        "backbone.2": "backbone.1",
        "mu_head": "direction",
        "kappa_head.0": "concentration.0",
        "kappa_head.2": "concentration.1",
    }
    assert len(tensors) == 2 * len(renamed)
    for theirs, ours in renamed.items():
        for part in ("weight", "bias"):
            np.testing.assert_array_equal(
                tensors[f"{ours}.{part}"], given_tensors[f"{theirs}.{part}"], strict=True
            )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mu_head.bias": None}, "missing tensors 'mu_head.bias'; unknown ones none"),
        ({"scale_head.weight": np.ones((2, 2), np.float32)}, "missing tensors none.*'scale_head.weight'"),
        ({"x" * 1000: np.ones(1, np.float32)}, r"unknown ones 'x{60}\.\.\.'"),
        ({"backbone.0.weight": np.ones(5, np.float32)}, r"backbone.0.weight has shape \(5,\)"),
        (
            {"backbone.2.weight": np.ones((5, 4), np.float32)},
            r"backbone.2.weight.*\(5, 4\), expected \(5, 6\)",
        ),
        ({"mu_head.bias": np.ones(3, np.float32)}, r"mu_head.bias.*expected \(2,\)"),
        ({"kappa_head.2.weight": np.ones((2, 4), np.float32)}, r"kappa_head.2.weight.*expected \(1, 4\)"),
        ({"action_scale": np.ones((1, 2), np.float32)}, r"action_scale.*expected \(2,\)"),
        ({"mu_head.bias": np.ones(2, np.int64)}, "mu_head.bias has type int64"),
        ({"mu_head.bias": np.array([1.0, np.nan], np.float32)}, "mu_head.bias.*not finite"),
        ({"mu_head.bias": np.array([1.0, 1e300])}, "mu_head.bias.*not finite"),
        ({"action_scale": np.zeros(2, np.float32)}, "low < high"),
        (
            {"action_scale": np.full(2, 3e38, np.float32), "action_bias": np.full(2, 3e38, np.float32)},
            "finite box",
        ),
    ],
)
def test_wrong_networks_are_named(change, words):
    tensors = {**actor(3, 2, 6, 5, 4), **change}
    tensors = {name: values for name, values in tensors.items() if values is not None}
    with pytest.raises(FileFormatError, match=words):
        to_policy_tensors(Checkpoint(tensors, {"env_id": "X-v0"}, 0))


@pytest.mark.parametrize(
    "args", [{}, {"env_id": 3}, {"env_id": "X", "kappa_init": 0}, {"env_id": "X", "kappa_init": "a"}]
)
def test_wrong_configurations_are_refused(args):
    with pytest.raises(FileFormatError, match=r"env_id|kappa_init"):
        to_policy_tensors(Checkpoint(actor(3, 2), args, 0))


# Hostile and damaged files


def refuse(data, words):
    with pytest.raises(FileFormatError, match=words) as caught:
        published._parse(data)
    one_line(caught.value)


def refuse_value(value, words):
    refuse(torch_save(value), words)


def refuse_program(program, words):
    """A pickle that stands where `args` should, behind all that makes a good file."""
    entries = entries_of(checkpoint_value(SMALL))
    good = entries["data.pkl"]
    marker = b"X\x0b\x00\x00\x00global_step"
    assert good.count(marker) == 1
    entries["data.pkl"] = good.replace(marker, b"X\x01\x00\x00\x00x" + program + marker)
    refuse(archive(entries), words)


@pytest.mark.parametrize(
    "name",
    [
        Name("os", "system"),
        Name("posix", "system"),
        Name("builtins", "eval"),
        Name("builtins", "getattr"),
        Name("__builtin__", "set"),
        Name("collections", "OrderedDict.fromkeys"),
        Name("torch", "load"),
        Name("torch", "UntypedStorage"),
        Name("torch.nn.modules.linear", "Linear"),
        Name("torch._utils", "_rebuild_tensor_v3"),
        Name("numpy._core.multiarray", "_reconstruct"),
        Name("__main__", "Args.x"),
        Name("__main__", "args"),
        Name("os\r", "system"),
    ],
)
def test_names_off_the_list_are_refused(name):
    refuse_value(checkpoint_value(SMALL, {"a": name}), "list of harmless names")
    refuse_value(checkpoint_value(SMALL, {"a": Call(name, ("touch pwned",))}), "list of harmless names")
    refuse_value(checkpoint_value(SMALL, more=Instance({}, name)), "list of harmless names")


def test_names_on_the_list_can_only_do_what_they_are_for():
    ordered, parameter, storage = (
        Name("collections", "OrderedDict"),
        Name("torch._utils", "_rebuild_parameter"),
        Name("torch", "FloatStorage"),
    )
    for call in (
        Call(ordered, ([("a", 1)],)),
        Call(Name("__main__", "Args"), (1,)),
        Call(parameter, (1, True, {})),
        Call(parameter, (Tensor(SMALL["w"]), True)),
        Call(storage, (10**9,)),
        Call(Name("torch._utils", "_rebuild_tensor_v2"), (1, 0, (1,), (1,), False, {})),
    ):
        refuse_value(checkpoint_value(SMALL, more=call), "call in the pickle")
    refuse_program(b"N)R", "call in the pickle")
    refuse_program(b"NNR", "call in the pickle")


@pytest.mark.parametrize(
    "opcode",
    sorted(set(range(256)) - set(b"NKMJGX)(t]ae}suqrhjcRbQ.") - {0x81, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A}),
)
def test_every_other_opcode_is_refused(opcode):
    refuse_program(bytes([opcode]) + b"os\nsystem\n", "opcode .* refused")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (b"t", "item|attributes|dictionary|left over|mark"),
        (b"e", "not a list"),
        (b"h\xff", "not stored"),
        (b"j\xff\xff\xff\xff", "not stored"),
        (b"X\xff\xff\xff\xffabc", "too early"),
        (b"X\x02\x00\x00\x00\xff\xff", "UTF-8"),
        (b"\x8a\x09" + b"\x01" * 9, "64 bits"),
        (b"c" + b"a" * 300 + b"\nb\n", "without an end"),
        (b"}(K\x01u", "not a dictionary"),
        (b"}N)s", "neither a text nor an integer|not a dictionary"),
        (b"})Ns", "neither a text nor an integer"),
        (b"}\x88Ns", "neither a text nor an integer"),
        (b"KKK\x01a", "not a list"),
        (b"K\x01}b", "takes none"),
        (b"}K\x01b", "not a dictionary"),
        (b"c__main__\nArgs\n)\x81}b}b", "takes none"),
        (b"NQ", "not one to a storage"),
        (b"(X\x07\x00\x00\x00storageNNNNtQ", "not one to a storage"),
        (b".", "left over"),
        (b"(N", "not a dictionary|left over|args"),
    ],
)
def test_malformed_programs(program, words):
    refuse_program(program, words)


def test_stack_and_marks_cannot_run_empty():
    for program in (
        b"",
        b".",
        b"0",
        b"a",
        b"s",
        b"t",
        b"u",
        b"e",
        b"R",
        b"b",
        b"Q",
        b"q\0",
        b"\x85",
        b"\x87",
        b"Kx",
    ):
        refuse(archive({"data.pkl": b"\x80\x02" + program}), "pickle|opcode")
    entries = entries_of(checkpoint_value(SMALL))
    refuse(archive({**entries, "data.pkl": entries["data.pkl"] + b"N"}), "left over")
    for protocol in (0, 1, 3, 4, 5, 255):
        refuse(archive({"data.pkl": bytes([0x80, protocol]) + b"}."}), "protocol 2")


@pytest.mark.parametrize(
    "change",
    [
        {"shape": (7,), "strides": (1,)},  # more elements than the storage
        {"shape": (1 << 40,), "strides": (0,)},
        {"shape": (1 << 62, 1 << 62), "strides": (0, 0)},
        {"shape": (2, 3), "strides": (4, 1)},  # the last element is outside
        {"shape": (2,), "strides": (1 << 62,)},
        {"offset": 1},
        {"offset": 1 << 62},
        {"shape": (0, 1 << 62), "strides": (1, 1)},
        {"length": 7},  # the archive's entry is smaller
        {"length": 5},  # ... or larger
        {"length": 1 << 62},
    ],
)
def test_tensors_outside_their_storage(change):
    values = np.arange(6, dtype=np.float32)
    tensor = Tensor(values, **change)
    refuse_value(checkpoint_value({"x": tensor}), "outside its storage|should hold")


@pytest.mark.parametrize(
    "change",
    [
        {"offset": -1},
        {"offset": None},
        {"shape": (-6,), "strides": (1,)},
        {"shape": (6,), "strides": (-1,)},
        {"shape": (6,), "strides": ()},
        {"shape": (True,), "strides": (1,)},
        {"shape": [6], "strides": (1,)},
        {"shape": (1.0,), "strides": (1,)},
        {"shape": (1,) * 9, "strides": (1,) * 9},
    ],
)
def test_tensors_that_are_none(change):
    refuse_value(checkpoint_value({"x": Tensor(np.arange(6, dtype=np.float32), **change)}), "a tensor needs")


def test_storages_that_are_none():
    values = np.arange(6, dtype=np.float32)
    refuse_value(checkpoint_value({"x": Tensor(values, length=-1)}), "not one to a storage")
    refuse_value(checkpoint_value({"x": Tensor(values, length="6")}), "not one to a storage")
    entries = entries_of(checkpoint_value({"x": values}))
    del entries["data/0"]
    refuse(archive(entries), "not in the archive")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"global_step": "7"}, "global_step"),
        ({"global_step": -1}, "global_step"),
        ({"global_step": True}, "global_step"),
        ({"args": 3}, "args"),
        ({"args": {1: 2}}, "args"),
        ({"args": Instance({"x": Tensor(np.ones(1, np.float32))})}, "plain values"),
        ({"args": Instance({"x": Name("torch", "FloatStorage")})}, "plain values"),
        ({"args": Instance({"x": Instance({})})}, "plain values"),
        ({"model_state_dict": [1]}, "named tensors"),
        ({"model_state_dict": {"w": 3}}, "named tensors"),
        ({"model_state_dict": {3: Tensor(np.ones(1, np.float32))}}, "named tensors"),
    ],
)
def test_parts_of_the_wrong_kind(change, words):
    refuse_value({**checkpoint_value(SMALL), **change}, words)


def test_missing_parts_are_named():
    refuse_value([1, 2], "expected a dictionary")
    for key in ("model_state_dict", "args", "global_step"):
        value = checkpoint_value(SMALL)
        del value[key]
        refuse_value(value, f"no {key} in it")
    # An Args object that never got its attributes
    refuse_value({**checkpoint_value(SMALL), "args": Call(Name("__main__", "Args"), ())}, "args is not")


def test_configurations_that_unfold_without_end():
    cycle = {"a": 1}
    cycle["a"] = cycle  # type: ignore[assignment]
    refuse_value(checkpoint_value(SMALL, cycle), "deeply nested")
    nested: object = 1
    for _ in range(published.MAX_PLAIN_DEPTH - 1):
        nested = (nested,)
    assert published._parse(torch_save(checkpoint_value(SMALL, {"a": nested}))).args == {"a": nested}
    refuse_value(checkpoint_value(SMALL, {"a": (nested,)}), "deeply nested")
    laughs: list[object] = ["ha"]
    for _ in range(15):
        laughs = [laughs] * 10
    refuse_value(checkpoint_value(SMALL, {"a": laughs}), "too large")
    shared = list(range(5000))
    refuse_value(checkpoint_value(SMALL, {str(i): shared for i in range(1000)}), "too large")
    deep = b"K\x01" + b"\x85" * 200_000  # a tuple in a tuple in a tuple ...
    entries = entries_of(checkpoint_value(SMALL, {"a": "DEEP"}))
    entries["data.pkl"] = re.sub(
        rb"X\x04\x00\x00\x00DEEPq.", lambda _: deep, entries["data.pkl"], flags=re.DOTALL
    )
    assert len(entries["data.pkl"]) > 200_000
    refuse(archive(entries), "deeply nested")


def test_no_program_takes_long():
    """No opcode may cost more than what it consumes, or a big object used again and again is its square."""
    big = b"}q\x00(" + b"".join(b"J" + struct.pack("<i", i) + b"N" for i in range(50_000)) + b"uq\x01"
    for program in (
        big + b"h\x01h\x00b" * 50_000,  # attributes from the big dictionary
        big + b"c__main__\nArgs\n)\x81q\x02" + b"h\x02h\x00b" * 50_000,
        big + b"]q\x02" + b"h\x00a" * 50_000,
        big + b"h\x00Q" * 50_000,
        b"(" * 100_000 + b"t" * 100_000,
        b"]" * 200_000,
        b"X\x00\x00\x00\x00r\xff\xff\xff\xff" * 50_000,
    ):
        began = time.process_time()
        refuse(archive({"data.pkl": b"\x80\x02" + program}), "pickle")
        assert time.process_time() - began < 5


def test_sizes_are_bounded(read, monkeypatch):
    refuse(archive({"data.pkl": b"\x80\x02" + b"N" * (1 << 20)}), "pickle is larger than 1 MiB")
    refuse(archive({str(i): b"" for i in range(published.MAX_ENTRIES + 1)}), "more than 10000 entries")
    base = np.zeros(1000, np.float32)
    many = {str(i): Tensor(base) for i in range(100)}
    monkeypatch.setattr(published, "MAX_TENSOR_BYTES", 399_999)
    refuse_value(checkpoint_value(many), "take more than")
    monkeypatch.setattr(published, "MAX_TENSOR_BYTES", 400_000)
    assert len(published._parse(torch_save(checkpoint_value(many))).tensors) == 100
    good = torch_save(checkpoint_value(SMALL))
    monkeypatch.setattr(published, "MAX_FILE_BYTES", len(good) - 1)
    with pytest.raises(FileFormatError, match="larger than"):
        read(good)


# The archive


def directory_of(data):
    end = data.rindex(b"PK\5\6")
    return struct.unpack_from("<II", data, end + 12)  # size, start


def test_compressed_entries_are_refused(tmp_path):
    path = tmp_path / "bomb.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", entries_of(checkpoint_value(SMALL))["data.pkl"])
        file.writestr("archive/data/0", bytes(100_000_000))
    tracemalloc.start()
    with pytest.raises(FileFormatError, match="compressed"):
        read_checkpoint(path)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_zips_of_other_writers_are_read_too(tmp_path):
    path = tmp_path / "file.pt"
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries_of(checkpoint_value(SMALL)).items():
            file.writestr(f"archive/{name}", content)
        file.comment = b"a comment"
    np.testing.assert_array_equal(read_checkpoint(path).tensors["w"], SMALL["w"])


def test_damaged_archives():
    data = torch_save(checkpoint_value(SMALL))
    _, start = directory_of(data)
    end = data.rindex(b"PK\5\6")

    def patched(at, raw):
        return data[:at] + raw + data[at + len(raw) :]

    refuse(b"", "not a zip")
    refuse(b"\x80\x02" + data[:100], "not a zip")
    refuse(data[:-1], "not a zip|damaged end")
    refuse(data + b"x", "damaged end")
    refuse(data[:start], "not a zip")
    refuse(patched(end + 10, b"\x05\x00"), "damaged")  # another number of entries
    refuse(patched(end + 8, b"\x05\x00\x05\x00"), "damaged directory")
    refuse(patched(end + 8, b"\x03\x00\x03\x00"), "damaged directory")
    refuse(patched(end + 16, struct.pack("<I", 1 << 31)), "damaged directory")
    refuse(patched(start, b"XX"), "damaged directory")
    refuse(patched(start + 8, b"\x09"), "encrypted")
    refuse(patched(start + 10, b"\x08"), "compressed")
    refuse(
        patched(start + 20, struct.pack("<II", 1 << 30, 1 << 30)), "does not agree"
    )  # a huge declared size
    refuse(patched(start + 24, struct.pack("<I", 1 << 30)), "compressed")
    refuse(patched(start + 28, b"\xff\xff"), "damaged|does not agree")
    refuse(patched(start + 42, struct.pack("<I", len(data))), "outside")
    refuse(patched(start + 42, struct.pack("<I", 1)), "outside")
    refuse(patched(start + 46, b"\xff"), "does not agree")
    refuse(patched(64 + 10, bytes([data[64 + 10] ^ 1])), "wrong checksum of 'archive/data.pkl'")


def test_overlapping_entries():
    data = bytearray(torch_save({**checkpoint_value(SMALL)}))
    size, start = directory_of(data)
    # One directory entry repeated: the same bytes under two names, which is how small files become large
    entry = bytes(data[start : start + 46 + len("archive/data.pkl")])
    end = data.rindex(b"PK\5\6")
    tail = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 2, 2, 2 * len(entry), start, 0)
    assert end > start + size
    refuse(bytes(data[:start]) + entry + entry + tail, "two entries")
    inner = archive({"x": b"abc"}, "b")  # an entry that contains another entry
    outer = archive({"x": inner}, "a")
    size, start = directory_of(outer)
    inside = outer.index(b"b/x") - 30
    inner_size, inner_start = directory_of(inner)
    second = bytearray(inner[inner_start : inner_start + inner_size])
    second[42:46] = struct.pack("<I", inside)
    directory = outer[start : start + size] + bytes(second)
    tail = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 2, 2, len(directory), start, 0)
    refuse(outer[:start] + directory + tail, "overlap")


def test_the_archive_must_be_that_of_one_checkpoint():
    entries = entries_of(checkpoint_value(SMALL))
    refuse(archive({"a/data.pkl": b""}), "found 0")
    refuse(archive({**entries, "byteorder": b"middle"}), "byteorder")
    names = {f"a/{name}": content for name, content in entries.items()}
    two = archive({**names, "b/data.pkl": b""}, "").replace(b"/a/", b"xa/").replace(b"/b/", b"xb/")
    refuse(two, "found 2")


def test_files_that_cannot_be_read(tmp_path):
    for path in (tmp_path, tmp_path / "absent.pt", tmp_path / ("x" * 5000), f"{tmp_path}/a\0b"):
        with pytest.raises(InputError):
            read_checkpoint(path)
    (tmp_path / "text.pt").write_text("hello")
    with pytest.raises(FileFormatError, match=r"text\.pt: not a checkpoint.*not a zip archive"):
        read_checkpoint(tmp_path / "text.pt")


# Nothing runs

AUDIT = """
import sys
from pathlib import Path
from geoact.deploy.published import read_checkpoint, to_policy_tensors
events = []
watching = True
sys.addaudithook(lambda event, args: events.append([event, str(args[:1])]) if watching else None)
outcomes = []
for path in sys.argv[1:]:
    try:
        to_policy_tensors(read_checkpoint(path))
        outcomes.append("read")
    except ValueError as error:
        outcomes.append(type(error).__name__)
watching = False
import json
print(json.dumps({"events": events, "outcomes": outcomes}))
"""


def test_reading_runs_and_imports_nothing(tmp_path):
    """Python's audit events see every import, compilation, process and socket, in C code too."""
    good = checkpoint_value(actor(3, 2))
    pwned = tmp_path / "pwned"
    hostile = [
        {**good, "args": Call(Name("os", "system"), (f"touch {pwned}",))},
        {**good, "args": Call(Name("builtins", "exec"), (f"open({str(pwned)!r}, 'w')",))},
        {**good, "args": Instance({}, Name("antigravity", "fly"))},
        {**good, "args": Instance({"env_id": "X"}, Name("antigravity", "Args"))},  # allowed, and inert
    ]
    paths = []
    for index, value in enumerate([good, *hostile]):
        paths.append(tmp_path / f"{index}.pt")
        paths[-1].write_bytes(torch_save(value))
    command = [sys.executable, "-c", AUDIT, *map(str, paths)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(result.stdout)
    assert found["outcomes"] == ["read", *["FileFormatError"] * 3, "read"]
    assert {event for event, _ in found["events"]} <= {"open"}, found["events"]
    assert {name for _, name in found["events"]} == {f"({str(path)!r},)" for path in paths}
    assert not pwned.exists()


def test_no_pickle_in_the_load_path():
    for name in ("deploy/published.py", "errors.py"):
        tree = ast.parse((ROOT / "geoact" / name).read_text())
        imported = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").split(".")[0])
            elif isinstance(node, ast.Name):
                assert node.id not in {"eval", "exec", "compile", "getattr", "__import__"}
        assert imported <= {
            "math",
            "struct",
            "zlib",
            "dataclasses",
            "itertools",
            "pathlib",
            "typing",
            "numpy",
            "geoact",
        }


# Random damage

OPCODES = b"NKMJGX)(t]ae}suqrhjcRbQ.\x80\x81\x85\x86\x87\x88\x89\x8a0i\x93\x94\x95"


def damaged(data: bytes, generator: np.random.Generator) -> bytes:
    """A few random edits: bytes changed, opcodes put in, pieces removed, repeated or set to an extreme."""
    out = bytearray(data)
    for _ in range(generator.integers(1, 4)):
        at = int(generator.integers(len(out) or 1))
        length = int(generator.integers(1, 9))
        match int(generator.integers(7)):
            case 0:
                out[at : at + 1] = generator.bytes(1)
            case 1:
                out[at : at + 1] = bytes([OPCODES[generator.integers(len(OPCODES))]])
            case 2:
                out[at:at] = bytes([OPCODES[generator.integers(len(OPCODES))]])
            case 3:
                del out[at : at + length]
            case 4:
                out[at:at] = out[at : at + 4 * length]
            case 5:
                out[at : at + length] = b"\xff" * length
            case _:
                out[at : at + length] = b"\x00" * length
    return bytes(out)


def one_line(error: Exception) -> bool:
    assert "\n" not in str(error) and 0 < len(str(error)) < 500
    return True


def fuzz(rounds: int, seed: int) -> dict[str, int]:
    generator = np.random.default_rng(seed)
    args = {"env_id": "Ant-v4", "lr": 3e-4, "track": True, "none": None, "list": [1, (2, 3)]}
    entries = entries_of(checkpoint_value(SMALL, args, 70_000), "little")
    outcomes = {"read": 0, "refused": 0}
    for index in range(rounds):
        if index % 4:  # a damaged pickle in a sound archive: a damaged archive rarely gets past its checksums
            data = archive({**entries, "data.pkl": damaged(entries["data.pkl"], generator)})
        else:
            data = damaged(archive(entries), generator)
        began = time.process_time()
        try:
            found = published._parse(data)
        except FileFormatError as error:
            outcomes["refused"] += one_line(error)
        else:
            assert type(found.global_step) is int and all(type(key) is str for key in found.args)
            assert all(type(values) is np.ndarray for values in found.tensors.values())
            outcomes["read"] += 1
        assert time.process_time() - began < 5
    return outcomes


def test_random_damage_is_read_or_refused():
    outcomes = fuzz(15_000, seed=0)
    assert min(outcomes.values()) > 300, outcomes  # both sides of the fence were visited


@pytest.mark.slow
def test_much_random_damage_is_read_or_refused():
    fuzz(100_000, seed=1)


pieces = st.one_of(
    st.sampled_from([bytes([opcode]) for opcode in OPCODES]),
    st.sampled_from(
        [
            b"X\x01\x00\x00\x00a",
            b"K\x05",
            b"h\x00",
            b"q\x00",
            b"ccollections\nOrderedDict\n",
            b"c__main__\nArgs\n",
            b"ctorch\nFloatStorage\n",
            b"ctorch._utils\n_rebuild_tensor_v2\n",
            Pickler().dump(Tensor(np.ones(2, np.float32)))[2:-1],
        ]
    ),
    st.binary(max_size=6),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(pieces, max_size=40))
def test_random_programs_are_read_or_refused(parts):
    program = published._Pickle(b"\x80\x02" + b"".join(parts) + b".")
    try:
        program.run()
    except FileFormatError as error:
        one_line(error)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused(data):
    with pytest.raises(FileFormatError):
        published._parse(data)
