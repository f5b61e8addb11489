"""A run's metrics: every row whole, TensorBoard's files as TensorBoard reads them, and a full disk."""

import errno
import json
import os
import struct
from pathlib import Path

import pytest

from geoact.config import RunConfig, defaults
from geoact.storage import events, files
from geoact.storage.recorder import Recorder
from geoact.storage.runs import Run, create_at


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return create_at(tmp_path / "run", RunConfig(env="Hopper-v5", algorithm="gac", settings=defaults("gac")))


def row(step: int) -> dict[str, float]:
    return {"step": step, "updates": 3, "charts/SPS": step / 3, "losses/qf_loss": -0.5}


def read_events(path: Path) -> list:
    """What tensorboardX's protocol buffers make of a file, each checksum compared with its own."""
    from tensorboardX.crc32c import crc32c
    from tensorboardX.proto import event_pb2

    content, found = path.read_bytes(), []
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        data = content[12 : 12 + length]
        for part, at in ((content[:8], 8), (data, 12 + length)):
            crc = crc32c(part) & 0xFFFFFFFF
            masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
            assert struct.unpack("<I", content[at : at + 4]) == (masked,)
        found.append(event_pb2.Event.FromString(data))  # pyright: ignore[reportAttributeAccessIssue]
        content = content[16 + length :]
    return found


def test_crc_of_the_standards_check_string():
    # CRC-32C of "123456789" is 0xE3069283.
    crc = 0xE3069283
    assert events.masked_crc(b"123456789") == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def test_rows_and_curves_are_what_was_written(run):
    recorder = Recorder(run)
    rows = [row(step) for step in (8, 1_000_000)]
    for one in rows:
        recorder.write(one)
    assert recorder.sync() == (run.path / "metrics.jsonl").stat().st_size
    recorder.close()
    assert run.metrics() == rows
    (path,) = run.path.glob("events.*")
    first, *points = read_events(path)
    assert first.file_version == "brain.Event:2"
    for one, point in zip(rows, points, strict=True):
        assert point.step == one["step"] and point.wall_time > 1.7e9
        values = {value.tag: value.simple_value for value in point.summary.value}
        assert values == pytest.approx({name: v for name, v in one.items() if "/" in name}, rel=1e-6)


def test_a_continued_run_tells_tensorboard_where_it_goes_on(run):
    Recorder(run, first_step=500).close()
    (path,) = run.path.glob("events.*")
    _, start = read_events(path)
    assert start.step == 500 and start.session_log.status == start.session_log.START


class FullDisk:
    """`files.append` as it is when the disk is full: half of the data, then the error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, only: str):
        self._only = only
        self._real = files.append
        monkeypatch.setattr(files, "append", self)

    def __call__(self, file, data: bytes) -> None:
        if self._only not in os.fspath(file.name):
            return self._real(file, data)
        raise OSError(errno.ENOSPC, "No space left on device")


def test_trust_21_a_full_disk_ends_tensorboard_without_a_word(run, monkeypatch, capfd):
    recorder = Recorder(run)
    recorder.write(row(8))
    FullDisk(monkeypatch, "events")
    recorder.write(row(16))
    recorder.write(row(24))
    recorder.close()
    assert [one["step"] for one in run.metrics()] == [8, 16, 24]
    assert capfd.readouterr().err == ""


def test_trust_21_a_full_disk_is_one_error_and_leaves_whole_rows(run, monkeypatch, capfd):
    recorder = Recorder(run)
    recorder.write(row(8))
    FullDisk(monkeypatch, "metrics.jsonl")
    with pytest.raises(OSError, match="No space left"):
        recorder.write(row(16))
    recorder.close()
    del recorder
    assert [one["step"] for one in run.metrics()] == [8]
    assert capfd.readouterr().err == ""


def test_trust_21_a_real_full_disk_leaves_the_file_as_it_was(tmp_path):
    with open("/dev/full", "ab", buffering=0) as full, pytest.raises(OSError, match="No space left"):
        files.append(full, b"row\n")
    path = tmp_path / "rows"

    class Shrinking:
        """A file that takes a few bytes at a time and then no more."""

        def __init__(self, file) -> None:
            self._file, self.room = file, 5

        def write(self, data) -> int:
            if not self.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            taken = self._file.write(bytes(data[: self.room]))
            self.room = 0
            return taken

        def __getattr__(self, name):
            return getattr(self._file, name)

    with open(path, "ab", buffering=0) as file:
        files.append(file, json.dumps({"step": 1}).encode())
        with pytest.raises(OSError, match="No space"):
            files.append(Shrinking(file), b"0123456789")  # pyright: ignore[reportArgumentType]
        files.append(file, b"\n")
    assert path.read_bytes() == b'{"step": 1}\n'
