"""Every test runs on one thread, with implicit rank and dtype promotion forbidden: mistakes fail loudly."""

from geoact.training import backend

backend.set_threads(1)

import hypothesis  # noqa: E402
import jax  # noqa: E402 (the threads are set before JAX starts)

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

backend.use_compilation_cache()  # tests of the same programs compile them once

# A busy machine is no bug: laws are checked however long an example takes.
hypothesis.settings.register_profile("geoact", deadline=None)
hypothesis.settings.load_profile("geoact")
