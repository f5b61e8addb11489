"""How the numerics are set up: threads and the compilation cache. Call before anything uses JAX.

XLA sums in another order on several threads, so only one thread is bit-reproducible. The limit is set by
environment variables because XLA reads them once, when JAX first computes.
"""

import os
from pathlib import Path

from geoact.machine import available_cores


def set_threads(threads: int) -> None:
    """Use this many threads for the numerics; 0 means all cores."""
    # NumPy multiplies small matrices here, which more threads only slow down.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    if threads:
        os.environ["NPROC"] = str(threads)
    if threads == 1:
        flags = os.environ.get("XLA_FLAGS", "")
        if "xla_cpu_multi_thread_eigen" not in flags:
            os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()


def cache_folder() -> Path:
    """Where compiled programs are kept between runs; GEOACT_CACHE moves it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("GEOACT_CACHE") or Path(base) / "geoact") / "xla"


def set_up_jax() -> None:
    """Keep compiled programs on disk, so that the second start is immediate; on a single core compute in turn.

    On a single core nothing can run beside the update: another thread for it only costs the change. JAX reads this
    setting when it first computes, and from no environment variable.
    """
    import jax

    if len(available_cores()) == 1:
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # a read-only home only costs the compilation
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
