"""`geoact evaluate`."""

import json
from dataclasses import dataclass

from geoact.commands._options import EpisodeOptions, check_episodes


@dataclass(frozen=True, kw_only=True)
class Evaluate(EpisodeOptions):
    """Play episodes with a trained policy and report its return.

    The policy acts without exploration noise unless asked otherwise.
    """

    episodes: int = 10
    """Number of episodes."""
    stochastic: bool = False
    """Act with exploration noise."""
    json: bool = False
    """Print one JSON object, with the return of every episode."""

    def __post_init__(self) -> None:
        check_episodes(self.episodes, self.seed)


def run(options: Evaluate) -> int:
    """Play, and print what came of it."""
    from geoact import runtime
    from geoact.training.evaluation import environment_of, evaluate

    path = options.policy()
    policy = runtime.load(path)
    result = evaluate(
        policy,
        environment_of(policy, options.env, options.trust_env),
        options.episodes,
        options.seed,
        options.stochastic,
    )
    mean, std, length = result.returns.mean(), result.returns.std(), result.lengths.mean()
    if options.json:
        facts = {
            "policy": str(path),
            "env": options.env or policy.spec.env,
            "algorithm": policy.spec.algorithm,
            "episodes": options.episodes,
            "seed": options.seed,
            "stochastic": options.stochastic,
            "return_mean": float(mean),
            "return_std": float(std),
            "length_mean": float(length),
            "returns": result.returns.tolist(),
        }
        print(json.dumps(facts))
    else:
        print(
            f"{policy.spec.algorithm} on {options.env or policy.spec.env}: return {mean:,.1f} +- {std:,.1f} over "
            f"{options.episodes} episodes (length {length:,.0f})"
        )
    return 0
