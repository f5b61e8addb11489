"""A policy at work, as a picture that moves: GIF (Pillow) or MP4 (the optional imageio-ffmpeg).

Rendering without a screen goes through EGL or OSMesa. MuJoCo decides which when it is first imported, and cannot
change its mind; so a small process of its own tries them out first. Import this module, or call
`choose_renderer`, before anything imports MuJoCo.
"""

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geoact.errors import InputError

if TYPE_CHECKING:
    import gymnasium as gym

    from geoact.runtime import Policy

FORMATS = (".gif", ".mp4")
PACKAGES = {"egl": "libegl1 and libgl1-mesa-dri", "osmesa": "libosmesa6"}
"""What each renderer needs from Debian."""

RATE = 25.0
"""Pictures a second: more only cost space."""
SMALL_HEIGHT, SMALL_RATE, SMALL_COLORS, SMALL_SECONDS = 140, 12.5, 16, 3.0
"""What a clip on a card needs: about a hundred kilobytes as a GIF."""

_TRY = """
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><light pos='0 0 1'/></worldbody></mujoco>")
renderer = mujoco.Renderer(model, 16, 16)
renderer.update_scene(mujoco.MjData(model))
renderer.render()
"""


def choose_renderer() -> str:
    """Set MUJOCO_GL to a renderer that works here, and return it; say what to install if there is none."""
    asked = os.environ.get("MUJOCO_GL", "").lower()
    candidates = [asked] if asked not in ("", "disabled", "disable", "off", "false", "0") else list(PACKAGES)
    if "mujoco" in sys.modules:
        if asked in PACKAGES or asked == "glfw":
            return asked
        raise InputError(
            "MuJoCo was imported without a renderer, which cannot be changed in a running process: set "
            "MUJOCO_GL=egl or MUJOCO_GL=osmesa before starting Python"
        )
    for name in candidates:
        try:
            tried = subprocess.run(
                [sys.executable, "-c", _TRY],
                env={**os.environ, "MUJOCO_GL": name, "PYOPENGL_PLATFORM": name},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=120,
                check=False,
            )
        except subprocess.TimeoutExpired:
            continue
        if tried.returncode == 0:
            os.environ["MUJOCO_GL"] = name
            if name in PACKAGES:
                os.environ["PYOPENGL_PLATFORM"] = name
            return name
    if candidates == list(PACKAGES):
        raise InputError(
            "neither EGL nor OSMesa works here, so nothing can be rendered: install Debian's "
            f"{PACKAGES['osmesa']} (software) or {PACKAGES['egl']} (with a graphics card), "
            "for example: apt-get install libosmesa6"
        )
    needed = f": it needs Debian's {PACKAGES[asked]}" if asked in PACKAGES else ""
    raise InputError(
        f"MUJOCO_GL={asked} does not work here{needed}; or leave MUJOCO_GL unset to try the others"
    )


def check_format(out: Path) -> None:
    """Refuse a picture that cannot be written, before anything is played."""
    if out.suffix.lower() not in FORMATS:
        raise InputError(f"cannot write {out.name}: use a name that ends in .gif or .mp4")
    if out.suffix.lower() == ".mp4":
        try:
            importlib.import_module("imageio_ffmpeg")
        except ImportError:
            raise InputError(
                "MP4 needs the package imageio-ffmpeg (pip install 'geoact[video]'): install it, or use a name "
                "that ends in .gif"
            ) from None


def record(
    policy: "Policy",
    env_id: str,
    out: Path,
    episodes: int = 1,
    seed: int = 0,
    seconds: float | None = None,
    size: int = 320,
    rate: float = RATE,
    colors: int | None = None,
) -> list[float]:
    """Play episodes, the i-th from seed + i, write what was seen, and return their returns.

    `seconds` ends the clip (not the returns) early; `size` is its height in pixels, `rate` the most pictures a
    second. `colors`: of a GIF as a whole, which makes it small; by default every picture has 128 of its own.
    """
    if episodes < 1:
        raise InputError(f"episodes must be greater than 0, got {episodes}")
    if seconds is not None and not seconds > 0:
        raise InputError(f"seconds must be greater than 0, got {seconds}")
    check_format(out)
    choose_renderer()
    from geoact import environments
    from geoact.training.evaluation import require_fit

    env = environments.make(env_id, render_mode="rgb_array")
    require_fit(policy, env)
    _follow(env)
    returns: list[float] = []
    try:
        steps = float(env.metadata.get("render_fps") or 30)  # of the environment, a second
        skip = max(1, round(steps / rate))
        limit = None if seconds is None else max(1, round(seconds * steps / skip))
        out.parent.mkdir(parents=True, exist_ok=True)
        write(_frames(policy, env, episodes, seed, skip, limit, size, returns), out, steps / skip, colors)
    finally:
        env.close()
    return returns


def record_small(policy: "Policy", env_id: str, out: Path, seed: int = 0) -> list[float]:
    """The first seconds of an episode as a clip small enough for a card."""
    return record(policy, env_id, out, 1, seed, SMALL_SECONDS, SMALL_HEIGHT, SMALL_RATE, SMALL_COLORS)


def _follow(env: "gym.Env") -> None:
    """Look through the model's own tracking camera: the free one, Gymnasium's default, stays where it is."""
    dm_control: object = getattr(env.unwrapped, "render_kwargs", None)
    if isinstance(dm_control, dict):
        dm_control.setdefault("camera_id", 0)  # by DMControl's convention the one that follows
    renderer = getattr(env.unwrapped, "mujoco_renderer", None)
    if renderer is None:
        return
    cameras = [renderer.model.camera(i).name for i in range(renderer.model.ncam)]
    if "track" in cameras:
        renderer.camera_id = cameras.index("track")


def _frames(
    policy: "Policy",
    env: "gym.Env",
    episodes: int,
    seed: int,
    skip: int,
    limit: int | None,
    size: int,
    returns: list[float],
) -> Iterator[Any]:
    """The pictures, one every `skip` steps; the episodes' returns go into `returns` as they end."""
    from geoact.environments.checks import reset, step
    from geoact.training.evaluation import MAX_STEPS

    taken = 0
    for episode in range(episodes):
        obs, total = reset(env, seed + episode, policy.spec.env), 0.0
        for done in range(MAX_STEPS):  # an environment may have no end of its own
            if done % skip == 0 and (limit is None or taken < limit):
                yield _picture(env, size)
                taken += 1
            obs, reward, terminated, truncated = step(env, policy(obs), policy.spec.env)
            total += reward
            if terminated or truncated:
                break
        returns.append(total)


def _picture(env: "gym.Env", size: int) -> Any:
    from PIL import Image

    try:
        pixels = env.render()
    except Exception as error:  # a simulator's own complaint, or a missing drawing library
        if "pygame" in str(error) and importlib.util.find_spec("pygame") is None:
            raise InputError(
                "this environment is drawn with pygame, which is not installed: pip install 'geoact[play]'"
            ) from None
        raise InputError(f"the environment cannot be rendered: {error}") from None
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 3:
        raise InputError("the environment cannot be rendered: it gives no picture (render mode rgb_array)")
    picture = Image.fromarray(np.asarray(pixels, np.uint8))
    # Video encoders want even sizes.
    width = max(2, round(picture.width * size / picture.height / 2) * 2)
    return picture.resize((width, max(2, size // 2 * 2)))


def write(frames: Iterator[Any], out: Path, rate: float, colors: int | None = None) -> None:
    """Pictures to a file, which appears only when it is complete."""
    temporary = out.with_name(f".{out.stem}.{os.getpid()}{out.suffix}")
    try:
        if out.suffix.lower() == ".gif":
            reduced = (frame.quantize(128) for frame in frames) if colors is None else _alike(frames, colors)
            next(reduced).save(
                temporary,
                save_all=True,
                append_images=reduced,
                duration=round(1000 / rate),
                loop=0,
                optimize=colors is not None,
            )
        else:
            import imageio_ffmpeg  # pyright: ignore[reportMissingImports]

            first = next(frames)
            writer = imageio_ffmpeg.write_frames(str(temporary), first.size, fps=rate, macro_block_size=2)
            writer.send(None)
            writer.send(np.ascontiguousarray(first))
            for frame in frames:
                writer.send(np.ascontiguousarray(frame))
            writer.close()
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)


def _alike(frames: Iterator[Any], colors: int) -> Iterator[Any]:
    """Pictures with one palette and no dithering: what does not move is then the same from one to the next."""
    from PIL import Image

    pictures = list(frames)
    width, height = pictures[0].size
    chosen = [pictures[i * (len(pictures) - 1) // 3] for i in range(4)]  # all colours of the clip, nearly
    sheet = Image.new("RGB", (width, 4 * height))
    for i, picture in enumerate(chosen):
        sheet.paste(picture, (0, i * height))
    palette = sheet.quantize(colors, dither=Image.Dither.NONE)
    return (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
