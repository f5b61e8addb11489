"""Checkpoints: all that a run needs to go on exactly, written so that a crash at any moment loses none.

    <run>/checkpoints/step_<n>/
      arrays.safetensors    parameters, targets, optimisers; observations and actions of the open episodes; the
                            newest replay rows
      progress.json         counters, the generator's state, episode numbers, the length of metrics.jsonl
      manifest.json         schema, sizes and SHA-256 of these two and of the replay segments; written last
    <run>/replay/rows_<first>_<stop>.safetensors

Replay is written once: a segment holds the transitions number `first` to `stop - 1` of the whole run, never
changes, and is shared by the checkpoints that need it. Only the newest rows, too few for a segment, are
written again with each checkpoint. JAX's keys need no saving: update n draws from `fold_in(key(seed), n)`.

A checkpoint is made under a temporary name: segments first, then the arrays, then the manifest, each flushed
to the disk, then one rename. It is read back before an older one is deleted, and two are kept. Loading
believes nothing: sizes and hashes first (the manifest carries its own), then names, shapes and types against
a freshly made state. Nothing in these files is ever executed.

Both checkpoints share their older segments. If one of these is damaged, no checkpoint is whole; what is lost is a
64th of the replay, not the run, so loading can be asked to go on without those rows. There is no second copy and no
parity of the segments: at 800 transitions a second a copy costs 0.2 % of the training time on HalfCheetah (39 MB more
every five minutes) but 2 % on Humanoid (670 MB), doubles what a run keeps on the disk (0.17 and 2.9 GB), and would
lie on the same disk, where it helps against a flipped bit and hardly against anything worse.
"""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from geoact import __version__
from geoact.errors import FileFormatError, NewerFormatError, TrainingFailed
from geoact.storage import files

SCHEMA = 2
KEPT = 2

Arrays = dict[str, np.ndarray]


class Ring(Protocol):
    """A replay buffer, as far as its rows are written and read; rows are numbered over the whole run."""

    added: int

    @property
    def capacity(self) -> int: ...

    @property
    def oldest(self) -> int:
        """The number of the oldest row that is still there."""
        ...

    def numbered(self, first: int, stop: int) -> np.ndarray:
        """A copy of rows `first` to `stop - 1`."""
        ...

    def put(self, first: int, rows: np.ndarray) -> None:
        """Put back rows from number `first` on."""
        ...


@dataclass(frozen=True)
class Snapshot:
    """Everything that changes while a run trains, besides the replay: arrays, and plain data for JSON."""

    arrays: Arrays
    facts: dict[str, Any]


@dataclass(frozen=True)
class Segment:
    """Replay rows number `first` to `stop - 1`, in a file of their own."""

    first: int
    stop: int
    size: int
    sha256: str

    @property
    def name(self) -> str:
        return f"rows_{self.first:012}_{self.stop:012}.safetensors"


def segment_rows(capacity: int) -> int:
    """Rows per segment: a full buffer is some 64 files, of a size that is worth a file."""
    return min(max(capacity // 64, 256), 65_536)


def names(state: Any) -> list[str]:
    """A name for each leaf of an algorithm's state, from its path in the tree."""
    import jax

    trees: Any = jax.tree_util
    return [
        trees.keystr(path, simple=True, separator=".") for path, _ in trees.tree_flatten_with_path(state)[0]
    ]


def flatten(state: Any) -> Arrays:
    """An algorithm's state as named arrays."""
    import jax

    return dict(zip(names(state), map(np.asarray, jax.tree.leaves(state)), strict=True))


def unflatten(template: Any, arrays: Arrays) -> Any:
    """The state back; names, shapes and types must be those of `template`, a freshly made state."""
    import jax
    import jax.numpy

    trees: Any = jax.tree
    jnp: Any = jax.numpy
    leaves, tree = trees.flatten(template)
    expected = dict(zip(names(template), leaves, strict=True))
    for name in sorted(expected.keys() | arrays.keys()):
        here, there = expected.get(name), arrays.get(name)
        if here is None or there is None:
            raise FileFormatError(
                f"the state has {'no' if there is None else 'a foreign'} array {name!r} for this configuration"
            )
        if here.shape != there.shape or here.dtype != there.dtype:
            raise FileFormatError(
                f"the array {name!r} is {there.dtype}{list(there.shape)}, expected {here.dtype}{list(here.shape)}"
            )
    return trees.unflatten(tree, [jnp.array(arrays[name], copy=True) for name in expected])


class Checkpointer:
    """Writes a run's checkpoints, knows the segments that are already there, and keeps the newest two."""

    def __init__(
        self, run: Path, kept: dict[int, list[Segment]] | None = None, damaged: Collection[Segment] = ()
    ):
        """`kept`: the checkpoints that exist, by step, with their segments; `damaged`: segments to write anew."""
        self._folder = run / "checkpoints"
        self._replay = run / "replay"
        self._kept = dict(sorted((kept or {}).items()))
        self._damaged = set(damaged)

    @property
    def newest(self) -> int | None:
        """The step of the newest checkpoint."""
        return max(self._kept, default=None)

    def folder(self, step: int) -> Path:
        """Where the checkpoint of this step is, or would be."""
        return self._folder / f"step_{step:012}"

    def write(self, step: int, snapshot: Snapshot, replay: Ring | None) -> None:
        """Write the checkpoint of this step; after an error all is as it was before."""
        from safetensors.numpy import save

        if step == self.newest:
            return
        require_finite(snapshot.arrays)
        target = self.folder(step)
        temporary = self._folder / f".{target.name}.{os.getpid()}.tmp"
        new: list[Segment] = []
        try:
            temporary.mkdir(parents=True)
            arrays, segments = dict(snapshot.arrays), list[Segment]()
            if replay is not None:
                segments = self._known(replay)
                for first, stop in self._missing(replay, segments):
                    new.append(self._write_segment(first, stop, replay))
                segments = sorted([*segments, *new], key=lambda segment: segment.first)
                written = segments[-1].stop if segments else 0
                arrays["replay.rows"] = replay.numbered(max(written, replay.oldest), replay.added)
            data = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
            facts = (json.dumps(snapshot.facts, allow_nan=False) + "\n").encode()
            stated: dict[str, dict[str, Any]] = {}
            for name, content in (("arrays.safetensors", data), ("progress.json", facts)):
                files.write_bytes(temporary / name, content)
                stated[name] = {"size": len(content), "sha256": files.sha256(content)}
            manifest = {
                "format": "geoact-checkpoint",
                "schema": SCHEMA,
                "version": __version__,
                "files": stated,
                "replay": [vars(segment) for segment in segments],
            }
            files.write_bytes(temporary / "manifest.json", seal(manifest))
            verify(temporary)
            for segment in new:
                _read_segment(self._replay, segment)
            if target.exists():  # damaged, or it would be the newest; its segments may be overwritten by now
                self._remove(target)
            os.rename(temporary, target)
            files.sync_folder(self._folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            self.prune()  # segments that were already written for it
            raise
        self._kept[step] = segments
        self.prune()

    def _known(self, replay: Ring) -> list[Segment]:
        """Segments already written that still hold rows of the ring."""
        newest = self.newest
        before = self._kept[newest] if newest is not None else []
        return [s for s in before if s.stop > replay.oldest and s not in self._damaged]

    def _missing(self, replay: Ring, known: list[Segment]) -> Iterator[tuple[int, int]]:
        """The stretches of rows that are complete segments now and not on disk yet."""
        rows = segment_rows(replay.capacity)
        first = replay.oldest
        for segment in known:
            yield from _stretches(first, segment.first, rows)
            first = segment.stop
        yield from _stretches(first, replay.added, rows)

    def _write_segment(self, first: int, stop: int, replay: Ring) -> Segment:
        from safetensors.numpy import save

        data = save({"rows": replay.numbered(first, stop)})
        segment = Segment(first, stop, len(data), files.sha256(data))
        self._replay.mkdir(exist_ok=True)
        files.write_bytes(self._replay / segment.name, data)
        return segment

    def _remove(self, folder: Path) -> None:
        """Take a checkpoint away in one step, so that none is ever half there."""
        doomed = folder.with_name(f".{folder.name}.{os.getpid()}.old.tmp")
        os.rename(folder, doomed)
        shutil.rmtree(doomed, ignore_errors=True)

    def prune(self) -> None:
        """Delete what the two newest good checkpoints do not need; what cannot be deleted is tried again next time."""
        self._kept = dict(sorted(self._kept.items())[-KEPT:])
        kept = {f"step_{step:012}" for step in self._kept}
        needed = {segment.name for segments in self._kept.values() for segment in segments}
        with contextlib.suppress(OSError):
            for folder in checkpoint_folders(self._folder.parent):
                if folder.name not in kept:
                    self._remove(folder)
            if self._replay.is_dir():
                for path in self._replay.iterdir():
                    if path.name not in needed:
                        path.unlink()


def _stretches(first: int, end: int, rows: int) -> Iterator[tuple[int, int]]:
    """The segments from row `first` on that end at `end` or before; all but the first begin at a multiple of `rows`."""
    while (stop := first - first % rows + rows) <= end:
        yield first, stop
        first = stop


def require_finite(arrays: Arrays) -> None:
    """Nothing that is not a number may become the past that a run goes back to."""
    for name, array in arrays.items():
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            raise TrainingFailed(
                f"{name} has a non-finite number in it: no checkpoint was written, the one before is kept"
            )


def seal(manifest: dict[str, Any]) -> bytes:
    """The manifest as bytes with a SHA-256 of itself: each of its bytes is covered."""
    body = json.dumps(manifest, indent=1, sort_keys=True)
    sealed = manifest | {"sha256": files.sha256(body.encode())}
    return (json.dumps(sealed, indent=1, sort_keys=True) + "\n").encode()


def read_manifest(folder: Path) -> dict[str, Any]:
    """A checkpoint's manifest, if it is whole and of a schema that this version reads."""
    path = folder / "manifest.json"
    content = _read(path)
    data: dict[str, Any] = {}
    try:
        data = json.loads(content.decode())
        stated = {name: value for name, value in data.items() if name != "sha256"}
        whole = seal(stated) == content
    except (ValueError, RecursionError, AttributeError, TypeError):
        whole = False
    if not whole:
        raise FileFormatError(f"{path} is damaged: it is not what its own SHA-256 says")
    if data.get("format") != "geoact-checkpoint" or not isinstance(data.get("schema"), int):
        raise FileFormatError(f"{path} is not a geoact checkpoint")
    if data["schema"] > SCHEMA:
        raise NewerFormatError(
            f"{folder} was written by a newer geoact ({data.get('version')}, schema {data['schema']}; this one reads "
            f"up to {SCHEMA}): upgrade geoact to go on with it"
        )
    return data


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise FileFormatError(f"{path} is missing") from None
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror}") from None


def _read_stated(path: Path, size: Any, sha256: Any) -> bytes:
    content = _read(path)
    if len(content) != size or files.sha256(content) != sha256:
        raise FileFormatError(f"{path} is damaged: its size or SHA-256 is not the one in the manifest")
    return content


def _tensors(path: Path, content: bytes) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"{path} is damaged: {error}") from None


def verify(folder: Path) -> tuple[Snapshot, list[Segment]]:
    """A checkpoint's own files, all checked, and the segments that it refers to (not read yet)."""
    manifest = read_manifest(folder)
    try:
        stated = manifest["files"]
        contents = {
            name: _read_stated(folder / name, stated[name]["size"], stated[name]["sha256"])
            for name in ("arrays.safetensors", "progress.json")
        }
        segments = [
            Segment(int(s["first"]), int(s["stop"]), int(s["size"]), str(s["sha256"]))
            for s in manifest["replay"]
        ]
        facts = json.loads(contents["progress.json"].decode())
    except FileFormatError:
        raise
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FileFormatError(
            f"{folder / 'manifest.json'} does not fit its schema: {type(error).__name__} {error}"
        ) from None
    if not files.is_object(facts):
        raise FileFormatError(f"{folder / 'progress.json'} does not fit its schema: expected an object")
    arrays = _tensors(folder / "arrays.safetensors", contents["arrays.safetensors"])
    if manifest["schema"] == 1:
        arrays = {_from_schema_1(name): array for name, array in arrays.items()}
    return Snapshot(arrays, facts), segments


def _from_schema_1(name: str) -> str:
    """Schema 1 knew two critics by name, and PPO's value network by the numbers of its three layers."""
    name = re.sub(r"\bfirst\.layers\b", "members.0.layers", name)
    name = re.sub(r"\bsecond\.layers\b", "members.1.layers", name)
    name = re.sub(r"(\bvalue|[mn]u\.1)\.layers\.([01])\b", r"\1.backbone.\2", name)
    return re.sub(r"(\bvalue|[mn]u\.1)\.layers\.2\b", r"\1.mean", name)


def _read_segment(replay_folder: Path, segment: Segment) -> np.ndarray:
    path = replay_folder / segment.name
    rows = _tensors(path, _read_stated(path, segment.size, segment.sha256)).get("rows")
    if (
        rows is None
        or rows.ndim != 2
        or rows.dtype != np.float32
        or len(rows) != segment.stop - segment.first
    ):
        raise FileFormatError(f"{path} does not hold the rows that the manifest says")
    return rows


def read(
    run: Path, folder: Path, replay: Ring | None, accept_loss: bool = False
) -> tuple[Snapshot, list[Segment], dict[Segment, str]]:
    """A checkpoint, the segments it refers to, and those that are damaged, with the reason; its rows go into `replay`.

    A damaged segment is an error unless the loss is accepted.
    """
    snapshot, segments = verify(folder)
    damaged: dict[Segment, str] = {}
    if replay is None:
        return snapshot, segments, damaged
    rows, facts = snapshot.arrays.pop("replay.rows", None), snapshot.facts
    added = facts.get("replay_rows", facts.get("transitions"))  # schema 1: one row per transition
    if rows is None or rows.ndim != 2 or rows.dtype != np.float32 or not isinstance(added, int):
        raise FileFormatError(f"{folder / 'arrays.safetensors'} has no replay rows in it")
    replay.added = added
    expected = replay.oldest
    for segment in segments:
        if not segment.first <= expected < segment.stop <= added:
            raise FileFormatError(f"{folder / 'manifest.json'} refers to replay rows that do not join up")
        try:
            replay.put(segment.first, _read_segment(run / "replay", segment))
        except FileFormatError as error:
            if not accept_loss:
                raise
            damaged[segment] = str(error)
        expected = segment.stop
    if expected + len(rows) != added:
        raise FileFormatError(f"{folder / 'arrays.safetensors'} has too few or too many replay rows")
    replay.put(expected, rows)
    if damaged:
        _fill(replay, damaged)
    return snapshot, segments, damaged


def _fill(replay: Ring, damaged: Collection[Segment]) -> None:
    """Put copies of other rows, of all ages alike, where rows are lost.

    So the numbers of the rows stay what they are, nothing that was never seen is learned from, and no row is drawn
    more than twice as often as another unless half of them are lost; as the ring goes on, the copies are overwritten.
    """
    there = np.ones(replay.added - replay.oldest, bool)
    holes = [(max(s.first, replay.oldest), s.stop) for s in damaged]
    for first, stop in holes:
        there[first - replay.oldest : stop - replay.oldest] = False
    numbers = replay.oldest + np.flatnonzero(there)
    if not len(numbers):
        raise FileFormatError("all of the replay's rows are lost: there is nothing to go on learning from")
    lost = len(there) - len(numbers)
    chosen = numbers[np.linspace(0, len(numbers) - 1, lost).astype(np.int64)]
    for first, stop in holes:
        mine, chosen = chosen[: stop - first], chosen[stop - first :]
        replay.put(first, np.concatenate([replay.numbered(i, i + 1) for i in mine.tolist()]))


@dataclass(frozen=True)
class Loaded:
    """The newest whole checkpoint of a run."""

    step: int
    snapshot: Snapshot
    kept: dict[int, list[Segment]]
    """This checkpoint and an older one beside it, for the Checkpointer."""
    damaged: tuple[Segment, ...] = ()
    """Segments that were lost, for the Checkpointer."""
    missing: str | None = None
    """Why the run is not exact from here on: what was lost of its replay."""


def load_newest(
    run: Path, replay: Ring | None, say: Callable[[str], None], accept_loss: bool = False
) -> Loaded | None:
    """The newest checkpoint that is whole, with its rows in `replay`; None if none was ever written.

    Each damaged one is named through `say`; if none is whole, the run cannot go on, and the error says why.
    `accept_loss`: then it goes on from the newest whose replay alone is damaged, without the rows that are lost.
    """
    folders = sorted(checkpoint_folders(run), reverse=True)
    problems: dict[Path, str] = {}
    for folder in folders:
        try:
            snapshot, segments, _ = read(run, folder, replay)
        except NewerFormatError:
            raise
        except FileFormatError as error:
            problems[folder] = str(error)
            continue
        for problem in problems.values():
            say(f"{problem}; going back to {folder.name}")
        return Loaded(_step(folder), snapshot, {_step(folder): segments} | _older(folders, folder))
    if not problems:
        return None
    reasons = "; ".join(dict.fromkeys(problems.values()))
    salvaged = _salvage(run, folders, replay) if replay is not None else None
    if salvaged is None:
        raise FileFormatError(f"no checkpoint of this run is whole: {reasons}")
    if not accept_loss:
        raise FileFormatError(
            f"no checkpoint of this run is whole: {reasons}; only rows of the replay are lost, and --accept-loss goes "
            "on without them"
        )
    return salvaged


def _salvage(run: Path, folders: list[Path], replay: Ring) -> Loaded | None:
    """The newest checkpoint of which nothing but rows of the replay are lost."""
    for folder in folders:
        try:
            snapshot, segments, damaged = read(run, folder, replay, accept_loss=True)
        except FileFormatError:
            continue
        lost = sum(segment.stop - max(segment.first, replay.oldest) for segment in damaged)
        missing = f"{lost:,} of {replay.added - replay.oldest:,} transitions of the replay are lost"
        missing += f": {'; '.join(damaged.values())}"
        kept = {_step(folder): segments} | _older(folders, folder)
        return Loaded(_step(folder), snapshot, kept, tuple(damaged), missing)
    return None


def _step(folder: Path) -> int:
    return int(folder.name.removeprefix("step_"))


def _older(folders: list[Path], folder: Path) -> dict[int, list[Segment]]:
    """The checkpoint before this one; if it is damaged, that is found when it is needed."""
    found: dict[int, list[Segment]] = {}
    for older in folders[folders.index(folder) + 1 :][: KEPT - 1]:
        with contextlib.suppress(FileFormatError):
            found[_step(older)] = verify(older)[1]
    return found


def checkpoint_folders(run: Path) -> list[Path]:
    """The run's checkpoints, whole or not, oldest first; unfinished ones have other names."""
    folder = run / "checkpoints"
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if p.name.startswith("step_") and p.name[5:].isdigit())


def sweep(run: Path) -> None:
    """Clear away what a killed process left half-written. Only with the run's lock held."""
    for folder in (run, run / "checkpoints", run / "replay"):
        if folder.is_dir():
            for path in folder.glob(".*.tmp"):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def delete(run: Path) -> None:
    """Delete all checkpoints and their replay."""
    for name in ("checkpoints", "replay"):
        shutil.rmtree(run / name, ignore_errors=True)
