"""Every test runs on one thread, with implicit rank and dtype promotion forbidden: mistakes fail loudly."""

from geoact import backend

backend.set_threads(1)

import jax  # noqa: E402 (the threads are set before JAX starts)

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
