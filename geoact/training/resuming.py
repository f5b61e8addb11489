"""Going on with a run: from its newest checkpoint that is whole, exactly, or with a word on why not exactly."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from geoact import environments
from geoact.environments import EnvFactory
from geoact.errors import InputError
from geoact.storage import runs
from geoact.storage.runs import Run
from geoact.training.session import Session


def resume(
    path: Path | str,
    timesteps: int | None = None,
    factory: EnvFactory | None = None,
    say: Callable[[str], None] = print,
    eval_factory: EnvFactory | None = None,
    accept_loss: bool = False,
    env: tuple[str, str] | None = None,
) -> Session:
    """A session that goes on where the newest whole checkpoint of a run is, or from the start if there is none.

    `timesteps`: the run's new total, to extend it. `factory` makes the environment where the run's name for it
    is not an id. `say` gets a line for everything that is not as one would wish. `accept_loss`: go on, not exactly,
    where rows of the replay are damaged in every checkpoint. `env`: name and description (as in `RunConfig`) of what
    `factory` makes; where it is not what the run was begun on, the run goes on as one on the new environment.
    """
    run = runs.open_run(path)
    config = run.config()
    begun_on = config.env_given or config.env
    if env is not None:
        config = dataclasses.replace(config, env=env[0], env_given=env[1])
    if config.env_given and factory is None:
        raise InputError(
            f"{run.path} was trained on {config.env_given}, which cannot be made from its name: go on in Python, "
            f"geoact.resume({str(run.path)!r}, env=...).learn()"
        )
    if timesteps is not None and timesteps < config.timesteps:
        raise InputError(
            f"{run.path} is a run of {config.timesteps:,} transitions: --timesteps can only make it longer, "
            f"got {timesteps:,}"
        )
    if timesteps is not None:
        config = dataclasses.replace(config, timesteps=timesteps)
    session = Session(config, factory or environments.factory(config.env), lambda _: run, eval_factory)
    try:
        assert session.checkpointing is not None
        loaded = session.checkpointing.restore(say, accept_loss)
        if loaded is None and run.status().get("state") == "finished":
            raise InputError(
                f"{run.path} is finished and its checkpoints were not kept: it cannot be extended"
            )
        tally = session.tally
        tally.not_exact = _other_versions(run) or tally.not_exact
        if loaded is not None and loaded.missing:
            tally.not_exact = loaded.missing
        size = int(loaded.snapshot.facts.get("metrics_size", 0)) if loaded is not None else 0
        if not run.truncate_metrics(size):
            tally.not_exact = "rows of metrics.jsonl were missing"
        if tally.not_exact:
            say(f"note: going on, but not exactly: {tally.not_exact}")
        goes_on_with = config.env_given or config.env
        if goes_on_with != begun_on:
            say(f"note: the run was begun on {begun_on}, and goes on with {goes_on_with}")
        if timesteps is not None or goes_on_with != begun_on:
            session.change_total(config.timesteps)
        return session
    except BaseException:
        session.close()
        raise


def _other_versions(run: Run) -> str | None:
    """Other library versions may round otherwise."""
    now: dict[str, Any] = runs.library_versions()
    changed = [
        f"{name} {was} -> {now.get(name)}" for name, was in run.libraries().items() if now.get(name) != was
    ]
    return f"the run was begun with other versions ({', '.join(changed)})" if changed else None
