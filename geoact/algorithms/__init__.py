"""The algorithms, each a record of pure functions, loaded by name so that JAX starts only when one is used."""

from typing import TYPE_CHECKING

from geoact.config import AlgorithmConfig, GACConfig

if TYPE_CHECKING:
    from geoact.algorithms.record import Algorithm


def build(settings: AlgorithmConfig, obs_dim: int, action_dim: int) -> "Algorithm":
    """The algorithm that a (resolved) configuration describes, for these sizes."""
    if isinstance(settings, GACConfig):
        from geoact.algorithms import gac

        return gac.build(settings, obs_dim, action_dim)
    raise AssertionError(f"no algorithm for {type(settings).__name__}")
