"""What a checkpoint costs on HalfCheetah at the default interval: `python tests/reliability/cost.py [--out FILE]`.

Five minutes at 800 transitions a second bring 240,000 new rows (42 numbers each) to a buffer that ends up full.
Timed is all of a session's checkpoint: capture, segments, arrays, every fsync, reading back, deleting the oldest.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import numpy as np

from geoact import environments
from geoact.config import RunConfig, defaults
from geoact.training import session as sessions
from geoact.training.off_policy import OffPolicyLearner

INTERVAL, RATE = 300, 800


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    lines = [f"{'transitions':>12} {'new rows':>10} {'seconds':>8} {'share of 5 minutes':>19}"]
    with tempfile.TemporaryDirectory(dir=".") as folder:
        config = RunConfig(env="HalfCheetah-v5", algorithm="gac", settings=defaults("gac"))
        session = sessions.start(config, environments.factory(config.env), Path(folder))
        learner = session.learner
        assert isinstance(learner, OffPolicyLearner) and session.checkpointing is not None
        rng, shares = np.random.default_rng(0), []
        replay = learner.replay
        for _ in range(6):
            rows = rng.normal(size=(INTERVAL * RATE, replay.rows.shape[1])).astype(np.float32)
            replay.add(rows[:, :17], rows[:, 17:23], rows[:, 23], rows[:, 24], rows[:, 25:])
            learner.core.vector_steps = replay.added // config.num_envs
            started = time.perf_counter()
            session.checkpointing.write(None)
            seconds = time.perf_counter() - started
            shares.append(seconds / INTERVAL)
            lines.append(f"{replay.added:>12,} {len(rows):>10,} {seconds:>8.2f} {100 * shares[-1]:>17.2f} %")
        session.close()
    lines.append(f"worst: {100 * max(shares):.2f} % of the training time (limit 2 %)")
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text)
    return 0 if max(shares) < 0.02 else 1


if __name__ == "__main__":
    raise SystemExit(main())
