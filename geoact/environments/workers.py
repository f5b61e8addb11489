"""Each environment in a process of its own (Gymnasium's AsyncVectorEnv), none of which can hang the training.

A worker that died is named, and so is one that gives no answer: a stopped process (SIGSTOP), a simulator that got
stuck. Either ends all workers and the run, with a checkpoint of the state before the step: a run promises to be what
its configuration says, and with one episode begun anew in the middle it would be another one, without a word.
"""

import contextlib
import functools
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterable
from multiprocessing import connection
from typing import Any, TypeVar

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from geoact.environments.checks import Env, Space
from geoact.environments.making import EnvFactory, headless
from geoact.errors import InputError, TrainingFailed

T = TypeVar("T")
SLICE = 1.0
"""Seconds of one look at the workers. Waiting is counted in these, so that a training that was itself stopped for an
hour (Ctrl-Z) does not find its workers an hour late."""


class Workers:
    """A vector environment whose environments run in worker processes."""

    def __init__(self, name: str, factory: EnvFactory, count: int, patience: float):
        """`patience`: seconds that a reset or a step may take."""
        self.name = name
        self.patience = patience
        make = functools.partial(_in_worker, factory)
        try:
            with headless():
                self._vector = AsyncVectorEnv(
                    [make] * count, autoreset_mode=AutoresetMode.DISABLED, context="spawn"
                )
        except (EOFError, ConnectionError):
            raise InputError(
                "an environment worker died while it was starting: a script must train below "
                'if __name__ == "__main__":, since every worker imports it; otherwise --vectorization sync shows why'
            ) from None
        made: Any = self._vector  # Gymnasium leaves open what kind of spaces these are
        self.single_observation_space: Space = made.single_observation_space
        self.single_action_space: Space = made.single_action_space

    @property
    def processes(self) -> list[Any]:
        """The worker processes."""
        return list(self._vector.processes)

    def reset(self, seeds: list[int | None], mask: np.ndarray) -> np.ndarray:
        """Begin a new episode where the mask says so."""

        def call() -> np.ndarray:
            self._vector.reset_async(seed=seeds, options={"reset_mask": mask})
            self._await(range(len(mask)))
            return self._vector.reset_wait()[0]

        return self._alive(call)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Observations, rewards, terminated, truncated."""

        def call() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
            self._vector.step_async(action)
            self._await(range(len(action)))
            return self._vector.step_wait()[:4]

        return self._alive(call)

    def step_some(self, actions: dict[int, np.ndarray]) -> dict[int, tuple[np.ndarray, float, bool]]:
        """Step some of the environments: their observation, reward and whether the episode ended."""

        def call() -> dict[int, tuple[np.ndarray, float, bool]]:
            results: dict[int, tuple[np.ndarray, float, bool]] = {}
            for i, action in actions.items():
                self._vector.parent_pipes[i].send(("step", action))
            self._await(actions)
            for i in actions:
                answer, success = self._vector.parent_pipes[i].recv()
                if not success:
                    raise EOFError
                obs = np.asarray(self._vector.observations)[
                    i
                ].copy()  # the worker wrote it into shared memory
                results[i] = obs, float(answer[1]), bool(answer[2] or answer[3])
            return results

        return self._alive(call)

    def _await(self, indices: Iterable[int]) -> None:
        """Until each of these workers has answered, or has died."""
        waiting: dict[Any, int] = {self._vector.parent_pipes[i]: i for i in indices}
        looks = max(1, round(self.patience / SLICE))
        while waiting:
            ready = connection.wait(list(waiting), min(SLICE, self.patience))
            for pipe in ready:
                del waiting[pipe]
            looks -= not ready
            if looks == 0:
                raise _NoAnswer(min(waiting.values()))

    def _alive(self, call: Callable[[], T]) -> T:
        """A call to the workers; one that died or does not answer is reported, and the others are ended."""
        try:
            return call()
        except _NoAnswer as error:
            process = self._vector.processes[error.index]
            process.kill()  # also a stopped process
            self.close()
            raise TrainingFailed(
                f"environment worker {error.index} (process {process.pid}) of {self.name} gave no answer for "
                f"{self.patience:g} s: it is stopped or stuck, and was ended"
            ) from None
        except (EOFError, BrokenPipeError, ConnectionResetError):
            dead = self._dead()
            self.close()
            raise TrainingFailed(
                f"{dead} of {self.name} died: its process was killed or crashed; is there enough memory? "
                "--vectorization sync does without extra processes"
            ) from None

    def _dead(self) -> str:
        self._vector.processes[0].join(0.2)  # a process that was just killed takes a moment to be seen dead
        dead = [i for i, process in enumerate(self._vector.processes) if not process.is_alive()]
        return f"environment worker {dead[0]}" if dead else "an environment worker"

    def close(self, patience: float = 5.0) -> None:
        """End all worker processes, however they are."""
        vector = self._vector
        if vector.closed:
            return
        for pipe in vector.parent_pipes:
            with contextlib.suppress(OSError, AttributeError):  # dead, or None after an error of its own
                pipe.send(("close", None))
        deadline = time.monotonic() + patience
        for process in vector.processes:
            process.join(max(deadline - time.monotonic(), 0.0))
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in vector.parent_pipes:
            with contextlib.suppress(AttributeError):
                pipe.close()
        vector.closed = True


class _NoAnswer(Exception):
    """A worker kept silent."""

    def __init__(self, index: int):
        super().__init__(index)
        self.index = index


def _in_worker(factory: EnvFactory) -> Env:
    """The environment in its own process, which leaves it to the one that trains to be asked to stop.

    Ctrl-C and a closed terminal ask every process of theirs. SIGTERM stays what it is: Python ends daemons with it.
    """
    if multiprocessing.parent_process() is not None:
        for name in ("SIGINT", "SIGHUP"):
            if (number := getattr(signal, name, None)) is not None:
                signal.signal(number, signal.SIG_IGN)
    with headless():
        return factory()
