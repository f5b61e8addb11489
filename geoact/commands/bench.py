"""`geoact bench`."""

from dataclasses import KW_ONLY, dataclass

from tyro.conf import Positional

from geoact.commands._options import Algorithm
from geoact.config import DEFAULT_ALGORITHM
from geoact.errors import InputError


@dataclass(frozen=True)
class Bench:
    """Measure where the time of a training step goes, on one core."""

    what: Positional[str] = "step"
    """step: the whole vector step beside the bare update. act: one observation in the runtime, for every
    algorithm."""
    _: KW_ONLY
    env: str = "HalfCheetah-v5"
    """Environment of the step."""
    algorithm: Algorithm = DEFAULT_ALGORITHM
    repeats: int = 5
    """Number of measurements, taken in turns."""

    def __post_init__(self) -> None:
        if self.what not in ("step", "act"):
            raise InputError(f"unknown benchmark {self.what!r}: known: step, act")
        if self.repeats < 1:
            raise InputError(f"repeats must be greater than 0, got {self.repeats}")


def run(options: Bench) -> int:
    """Measure and print."""
    from geoact.training import backend

    backend.set_threads(1)
    if options.what == "act":
        from geoact.analysis import act_cost

        act_cost.run(100 * options.repeats)
    else:
        from geoact.analysis import step_cost

        step_cost.run(options.env, options.algorithm, options.repeats)
    return 0
