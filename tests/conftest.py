"""Every test runs on one thread, with implicit rank and dtype promotion forbidden: mistakes fail loudly."""

import signal
from collections.abc import Iterator

import pytest

from geoact.training import backend

backend.set_threads(1)

import hypothesis  # noqa: E402
import jax  # noqa: E402 (the threads are set before JAX starts)

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

backend.set_up_jax()  # tests of the same programs compile them once

# A busy machine is no bug: laws are checked however long an example takes.
hypothesis.settings.register_profile("geoact", deadline=None)
hypothesis.settings.load_profile("geoact")


@pytest.fixture(autouse=True, scope="session")
def _usual_signals() -> Iterator[None]:
    """A shell ignores Ctrl-C (and nohup a closed terminal) on behalf of what runs in its background; what is ignored
    stays ignored, here and in every process that a test starts and then asks to stop."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    if hasattr(signal, "SIGHUP"):
        usual[signal.SIGHUP] = signal.SIG_DFL
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
