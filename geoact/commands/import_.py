"""`geoact import`."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from tyro.conf import Positional


@dataclass(frozen=True)
class Import:
    """Turn a checkpoint published with the paper (.pt) into a policy.

    PyTorch is not needed, and nothing in the file is executed.
    """

    file: Positional[Path]
    """The checkpoint."""
    _: KW_ONLY
    out: Path
    """Policy folder to write."""
    radius: float | None = None
    """Length of the action before clipping. Without it: 1.0 for Ant, else 2.5, as in the paper."""


def run(options: Import) -> int:
    """Read, convert and save."""
    from geoact.deploy import published

    policy = published.to_policy(published.read_checkpoint(options.file), options.radius)
    policy.save(options.out)
    print(f"{options.out}: {policy.spec.algorithm} on {policy.spec.env}, radius {policy.spec.head.radius}")
    return 0
