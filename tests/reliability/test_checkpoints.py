"""Checkpoints under kills at every file operation, full disks, and damage of every kind."""

import builtins
import errno
import functools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geoact.errors import FileFormatError, NewerFormatError, TrainingFailed
from geoact.storage import checkpoints, files
from geoact.storage.checkpoints import Checkpointer, Loaded, Snapshot
from geoact.training.replay import Replay

CAPACITY = 1500
STEPS = (1000, 1700, 2400)
"""Transitions at the three checkpoints: the ring is not yet full, just wrapped, wrapped again."""


class Killed(BaseException):
    """The process is gone."""


class Disk:
    """Counts the operations of a write, and makes one of them the last, or fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.count = 0
        self.log: list[str] = []
        self.fatal: int | None = None
        """The operation that the process dies in."""
        self.full: int | None = None
        """The operation that finds the disk full; all writes after it, too."""
        for name in ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir"):
            monkeypatch.setattr(os, name, self._wrap(name, getattr(os, name)))
        monkeypatch.setattr(files, "open", self._open, raising=False)

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.step(name)
            return real(*args, **kwargs)

        return call

    def step(self, name: str, half: Callable[[], object] | None = None) -> None:
        number, self.count = self.count, self.count + 1
        self.log.append(name)
        if self.fatal is not None and number >= self.fatal:
            if number == self.fatal and half is not None:
                half()
            raise Killed
        grows = name in ("write", "mkdir", "fsync", "open")
        if self.full is not None and number >= self.full and grows:
            if half is not None:
                half()
            raise OSError(errno.ENOSPC, "No space left on device")

    def _open(self, path: Path, mode: str) -> Any:
        assert mode == "wb"
        self.step("open")
        disk, file = self, builtins.open(path, mode, buffering=0)  # noqa: SIM115

        class File:
            def __enter__(self) -> "File":
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def write(self, data: bytes) -> None:
                disk.step("write", lambda: file.write(data[: len(data) // 2]))
                file.write(data)

            def flush(self) -> None:
                pass

            def fileno(self) -> int:
                return file.fileno()

        return File()


@functools.cache
def ring(transitions: int) -> Replay:
    """A replay as it is after this many transitions of one and the same run."""
    replay, rng = Replay(CAPACITY, 3, 2), np.random.default_rng(5)
    data = rng.normal(size=(transitions, replay.rows.shape[1])).astype(np.float32)
    for start in range(0, transitions, 100):
        rows = data[start : start + 100]
        replay.add(rows[:, :3], rows[:, 3:5], rows[:, 5], rows[:, 6], rows[:, 7:])
    return replay


def snapshot(transitions: int) -> Snapshot:
    rng = np.random.default_rng(transitions)
    arrays = {"state.w": rng.normal(size=(30, 40)).astype(np.float32), "state.n": np.asarray(transitions)}
    return Snapshot(arrays, {"transitions": transitions, "vector_steps": transitions})


def write(folder: Path, *steps: int, kept: Loaded | None = None) -> Checkpointer:
    writer = Checkpointer(folder, kept.kept if kept is not None else None)
    for step in steps:
        writer.write(step, snapshot(step), ring(step))
    return writer


def load(folder: Path) -> tuple[Loaded, list[str]]:
    """The newest checkpoint, compared with what was written, and what was said about others."""
    replay, said = Replay(CAPACITY, 3, 2), []
    loaded = checkpoints.load_newest(folder, replay, said.append)
    assert loaded is not None
    expected, rows = snapshot(loaded.step), ring(loaded.step)
    assert loaded.snapshot.facts == expected.facts
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(loaded.snapshot.arrays[name], array)
    assert replay.added == rows.added
    np.testing.assert_array_equal(replay.rows[: len(replay)], rows.rows[: len(rows)])
    return loaded, said


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".*")]


@pytest.fixture
def two(tmp_path: Path) -> Path:
    write(tmp_path / "two", *STEPS[:2])
    return tmp_path / "two"


def test_what_is_written_is_what_is_read_and_only_new_segments_are_written(tmp_path):
    writer = write(tmp_path, STEPS[0])
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "replay").iterdir()}
    assert len(before) == 3  # 768 of 1000 rows in segments of 256
    for step in STEPS[1:]:
        writer.write(step, snapshot(step), ring(step))
    loaded, said = load(tmp_path)
    assert loaded.step == STEPS[2] and sorted(loaded.kept) == list(STEPS[1:]) and said == []
    now = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "replay").iterdir()}
    # The second checkpoint still holds rows from 200 on, the first segment on; none was written twice.
    assert all(now[name] == stamp for name, stamp in before.items() if name in now)
    assert [f.name for f in checkpoints.checkpoint_folders(tmp_path)] == [f"step_{s:012}" for s in STEPS[1:]]
    assert leftovers(tmp_path) == []


def operations(two: Path, tmp_path: Path) -> list[str]:
    """The file operations of the third checkpoint."""
    shutil.copytree(two, tmp_path / "count")
    with pytest.MonkeyPatch.context() as patch:
        kept, _ = load(tmp_path / "count")
        disk = Disk(patch)
        write(tmp_path / "count", STEPS[2], kept=kept)
    return disk.log


def test_a_kill_at_every_operation_of_a_checkpoint_loses_nothing(two, tmp_path):
    log = operations(two, tmp_path)
    assert {"write", "fsync", "replace", "rename", "unlink", "rmdir"} <= set(log) and len(log) > 40
    ends = set()
    for fatal in range(len(log)):
        folder = tmp_path / f"kill-{fatal}"
        shutil.copytree(two, folder)
        kept, _ = load(folder)
        with pytest.MonkeyPatch.context() as patch:
            Disk(patch).fatal = fatal
            with pytest.raises(Killed):
                write(folder, STEPS[2], kept=kept)
        checkpoints.sweep(folder)
        after, said = load(folder)
        assert after.step in STEPS[1:] and said == [], f"operation {fatal} ({log[fatal]})"
        ends.add(after.step)
        writer = write(folder, STEPS[2], kept=after)
        writer.prune()
        assert load(folder)[0].step == STEPS[2] and leftovers(folder) == []
        shutil.rmtree(folder)
    assert ends == set(STEPS[1:])


def test_a_full_disk_at_every_write_leaves_the_checkpoints_before_and_nothing_half_written(two, tmp_path):
    log = operations(two, tmp_path)
    there = sorted(p.relative_to(two) for p in two.rglob("*"))
    tried = 0
    for full, name in enumerate(log):
        if name not in ("open", "write", "fsync", "mkdir"):
            continue
        folder = tmp_path / f"full-{full}"
        shutil.copytree(two, folder)
        kept, _ = load(folder)
        writer = Checkpointer(folder, kept.kept)
        with pytest.MonkeyPatch.context() as patch:
            Disk(patch).full = full
            with pytest.raises(OSError, match="No space left"):
                writer.write(STEPS[2], snapshot(STEPS[2]), ring(STEPS[2]))
        after, said = load(folder)
        assert after.step == STEPS[1] and said == []
        assert sorted(p.relative_to(folder) for p in folder.rglob("*")) == there
        writer.write(STEPS[2], snapshot(STEPS[2]), ring(STEPS[2]))  # with room again
        assert load(folder)[0].step == STEPS[2]
        shutil.rmtree(folder)
        tried += 1
    assert tried > 20


def damages(content: bytes, header: int) -> list[tuple[str, bytes | None]]:
    """A flipped byte in every 4 KiB block and in every header byte, truncation at every block, nothing at all."""

    def flip(at: int) -> bytes:
        return content[:at] + bytes([content[at] ^ 0x20]) + content[at + 1 :]

    flips = [*range(0, len(content), 4096), len(content) - 1, *range(header)]
    cuts = [*range(0, len(content), 4096), len(content) - 1]
    damaged: list[tuple[str, bytes | None]] = [(f"flipped {at}", flip(at)) for at in flips]
    return [*damaged, *((f"cut at {at}", content[:at]) for at in cuts), ("deleted", None)]


def test_every_damage_is_detected_named_and_gone_back_from(two):
    newest = checkpoints.checkpoint_folders(two)[-1]
    older = {s["first"] for s in checkpoints.read_manifest(checkpoints.checkpoint_folders(two)[0])["replay"]}
    own = [two / "replay" / s.name for s in load(two)[0].kept[STEPS[1]] if s.first not in older]
    assert own, "the newest checkpoint has segments of its own"
    cases = 0
    for path in [*newest.iterdir(), *own]:
        content = path.read_bytes()
        header = 8 + int.from_bytes(content[:8], "little") if path.suffix == ".safetensors" else len(content)
        for what, damaged in damages(content, header):
            path.unlink()
            if damaged is not None:
                path.write_bytes(damaged)
            loaded, said = load(two)
            assert loaded.step == STEPS[0], f"{path.name} {what}: not detected"
            assert len(said) == 1 and str(path) in said[0] and "going back to step_000000001000" in said[0]
            path.write_bytes(content)
            cases += 1
    assert cases > 500
    assert load(two)[0].step == STEPS[1]


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.unlink()
    if how != "deleted":
        path.write_bytes(content if how == "flipped" else content[: len(content) // 2])


def shared(two: Path) -> list[checkpoints.Segment]:
    """The segments that both checkpoints need."""
    kept = load(two)[0].kept
    return [segment for segment in kept[STEPS[1]] if segment in kept[STEPS[0]]]


@pytest.mark.parametrize("how", ["flipped", "cut", "deleted"])
def test_trust_13_a_damaged_segment_that_both_checkpoints_need_is_named_and_refused(two, how):
    path = two / "replay" / shared(two)[0].name
    damage(path, how)
    with pytest.raises(
        FileFormatError, match=r"no checkpoint of this run is whole.*--accept-loss"
    ) as refused:
        checkpoints.load_newest(two, Replay(CAPACITY, 3, 2), print)
    assert str(refused.value).count(str(path)) == 1


@pytest.mark.parametrize("how", ["flipped", "cut", "deleted"])
@pytest.mark.parametrize("which", [[0], [1], [0, 1], [0, 1, 2]])
def test_trust_13_a_run_goes_on_without_the_rows_that_are_lost(two, which, how):
    lost = [shared(two)[i] for i in which]
    for segment in lost:
        damage(two / "replay" / segment.name, how)
    replay = Replay(CAPACITY, 3, 2)
    loaded = checkpoints.load_newest(two, replay, print, accept_loss=True)
    assert loaded is not None and loaded.step == STEPS[1] and set(loaded.damaged) == set(lost)
    there = ring(STEPS[1])
    gone = np.zeros(STEPS[1], bool)
    for segment in lost:
        gone[max(segment.first, there.oldest) : segment.stop] = True
    rows = gone.sum()
    assert f"{rows} of 1,500 transitions of the replay are lost" in str(loaded.missing)
    assert all(segment.name in str(loaded.missing) for segment in lost)
    # Every row that is there is where it was; in place of a lost one there is one of them, each about as often.
    originals = [row.tobytes() for row in there.numbered(there.oldest, STEPS[1])]
    kept = {row for row, missing in zip(originals, gone[there.oldest :]) if not missing}
    found = [row.tobytes() for row in replay.numbered(replay.oldest, STEPS[1])]
    for number, (row, missing) in enumerate(zip(found, gone[there.oldest :])):
        assert row in kept if missing else row == originals[number]
    counts = [found.count(row) for row in kept]
    assert max(counts) <= 1 + -(-rows // len(kept)) and min(counts) >= 1
    # The next checkpoint is whole again, and so is the one after it.
    writer = Checkpointer(two, loaded.kept, loaded.damaged)
    writer.prune()
    assert len(checkpoints.checkpoint_folders(two)) == 2, "nothing is deleted before a whole one is there"
    for step in (STEPS[2], STEPS[2] + 300):
        go_on(replay, step)
        writer.write(step, snapshot(step), replay)
        again = Replay(CAPACITY, 3, 2)
        whole = checkpoints.load_newest(two, again, print)
        assert whole is not None and whole.step == step and whole.missing is None
        np.testing.assert_array_equal(again.rows, replay.rows)


def go_on(replay: Replay, transitions: int) -> None:
    new = ring(transitions).numbered(replay.added, transitions)
    replay.add(new[:, :3], new[:, 3:5], new[:, 5], new[:, 6], new[:, 7:])


@pytest.mark.slow
def test_trust_13_a_kill_while_the_lost_rows_are_replaced_loses_nothing_more(two, tmp_path):
    damage(two / "replay" / shared(two)[1].name, "flipped")

    def salvage(folder: Path) -> tuple[Loaded, Replay]:
        replay = Replay(CAPACITY, 3, 2)
        loaded = checkpoints.load_newest(folder, replay, print, accept_loss=True)
        assert loaded is not None
        return loaded, replay

    def write_next(folder: Path) -> None:
        loaded, replay = salvage(folder)
        go_on(replay, STEPS[2])
        Checkpointer(folder, loaded.kept, loaded.damaged).write(STEPS[2], snapshot(STEPS[2]), replay)

    shutil.copytree(two, tmp_path / "count")
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(patch)
        write_next(tmp_path / "count")
    for fatal in range(disk.count):
        folder = tmp_path / f"kill-{fatal}"
        shutil.copytree(two, folder)
        with pytest.MonkeyPatch.context() as patch:
            Disk(patch).fatal = fatal
            with pytest.raises(Killed):
                write_next(folder)
        checkpoints.sweep(folder)
        after, _ = salvage(folder)
        assert after.step == STEPS[2] or (after.step == STEPS[1] and len(after.damaged) == 1)
        shutil.rmtree(folder)


def test_trust_13_where_the_state_itself_is_damaged_nothing_can_be_accepted(two):
    for folder in checkpoints.checkpoint_folders(two):
        damage(folder / "arrays.safetensors", "flipped")
    with pytest.raises(FileFormatError, match=r"no checkpoint of this run is whole") as refused:
        checkpoints.load_newest(two, Replay(CAPACITY, 3, 2), print, accept_loss=True)
    assert "--accept-loss" not in str(refused.value)


def test_a_newer_schema_is_refused_with_advice_and_not_gone_back_from(two):
    path = checkpoints.checkpoint_folders(two)[-1] / "manifest.json"
    manifest = json.loads(path.read_bytes())
    del manifest["sha256"]
    path.write_bytes(checkpoints.seal(manifest | {"schema": checkpoints.SCHEMA + 1, "version": "9.0"}))
    with pytest.raises(NewerFormatError, match=r"newer geoact \(9.0, schema \d.*upgrade"):
        checkpoints.load_newest(two, Replay(CAPACITY, 3, 2), print)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_state_that_is_not_finite_is_never_written(two, value):
    broken = snapshot(STEPS[2])
    broken.arrays["state.w"][3, 4] = value
    kept, _ = load(two)
    with pytest.raises(TrainingFailed, match=r"state\.w has a non-finite number"):
        Checkpointer(two, kept.kept).write(STEPS[2], broken, ring(STEPS[2]))
    assert load(two)[0].step == STEPS[1] and leftovers(two) == []


def test_a_folder_is_replaced_in_one_step(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / folder.name).touch()
    if not files.exchange(one, other):
        pytest.skip("this file system cannot exchange names")
    assert (one / "other").exists() and (other / "one").exists()
