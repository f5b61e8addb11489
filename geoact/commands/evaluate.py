"""`geoact evaluate`."""

import json
import sys
from dataclasses import dataclass

from geoact.checks import positive
from geoact.commands._options import EpisodeOptions, check_episodes


@dataclass(frozen=True, kw_only=True)
class Evaluate(EpisodeOptions):
    """Play episodes with a trained policy and report its return.

    The policy acts without exploration noise unless asked otherwise.
    """

    episodes: int = 10
    """Number of episodes."""
    eval_steps: int = 100_000
    """Steps after which an episode is ended: an environment may have no end of its own."""
    stochastic: bool = False
    """Act with exploration noise."""
    json: bool = False
    """Print one JSON object, with the return of every episode."""

    def __post_init__(self) -> None:
        check_episodes(self.episodes, self.seed)
        positive(self, "eval_steps")


def run(options: Evaluate) -> int:
    """Play, and print what came of it."""
    from geoact import runtime
    from geoact.training.evaluation import environment_of, evaluate
    from geoact.training.progress import EvaluationLines

    path = options.policy()
    policy = runtime.load(path)
    result = evaluate(
        policy,
        environment_of(policy, options.env, options.trust_env),
        options.episodes,
        options.seed,
        options.stochastic,
        options.eval_steps,
        watch=EvaluationLines(options.episodes, lambda line: print(line, file=sys.stderr, flush=True)),
    )
    if (note := result.note(options.eval_steps)) is not None:
        print(f"note: {note}", file=sys.stderr)
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
            "cut": result.cut,
            "returns": result.returns.tolist(),
        }
        print(json.dumps(facts))
    else:
        print(
            f"{policy.spec.algorithm} on {options.env or policy.spec.env}: return {mean:,.1f} +- {std:,.1f} over "
            f"{options.episodes} episodes (length {length:,.0f})"
        )
    return 0
