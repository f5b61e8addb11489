"""Every test runs with implicit rank and dtype promotion forbidden: shape and dtype mistakes fail loudly."""

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
