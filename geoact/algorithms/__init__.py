"""The algorithms, each a record of pure functions, loaded by name so that JAX starts only when one is used."""

from typing import TYPE_CHECKING

from geoact.config import AlgorithmConfig, GACConfig, PPOConfig, SACConfig, TD3Config

if TYPE_CHECKING:
    from geoact.algorithms.record import Algorithm


def build(settings: AlgorithmConfig, obs_dim: int, action_dim: int) -> "Algorithm":
    """The algorithm that a (resolved) configuration describes, for these sizes."""
    if isinstance(settings, GACConfig):
        from geoact.algorithms import gac

        return gac.build(settings, obs_dim, action_dim)
    if isinstance(settings, SACConfig):
        from geoact.algorithms import sac

        return sac.build(settings, obs_dim, action_dim)
    if isinstance(settings, TD3Config):
        from geoact.algorithms import td3

        return td3.build(settings, obs_dim, action_dim)
    if isinstance(settings, PPOConfig):
        from geoact.algorithms import ppo

        return ppo.build(settings, obs_dim, action_dim)
    raise AssertionError(f"no algorithm for {type(settings).__name__}")
