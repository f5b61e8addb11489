"""Rendering is tried for real where the machine can; what it says where it cannot is tested everywhere."""

import dataclasses
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from geoact import runtime
from geoact.analysis.act_cost import random_policy
from geoact.errors import InputError
from geoact.report import video

CLEAN = {key: value for key, value in os.environ.items() if key not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}


def save_policy(folder: Path) -> Path:
    """An untrained policy for HalfCheetah."""
    policy = random_policy("gac", 17, 6)
    rng = np.random.default_rng(0)
    tensors = {name: rng.normal(size=t.shape).astype(np.float32) for name, t in policy.tensors.items()}
    return runtime.Policy(dataclasses.replace(policy.spec, env="HalfCheetah-v4"), tensors).save(folder)


def play(*argv: str, **changed: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "geoact.cli", "play", *argv],
        capture_output=True,
        text=True,
        env={**CLEAN, **changed},
        check=False,
    )


def test_a_clip_of_a_policy(tmp_path: Path) -> None:
    from PIL import Image

    policy = save_policy(tmp_path / "policy")
    out = tmp_path / "clip.gif"
    done = play(str(policy), "--out", str(out), "--seconds", "1")
    if "apt-get install" in done.stderr:
        pytest.skip("no renderer on this machine")
    assert done.returncode == 0, done.stderr
    assert "return" in done.stdout and str(out) in done.stdout
    with Image.open(out) as picture:
        assert (
            getattr(picture, "n_frames", 1) == 20 and picture.height == 320
        )  # HalfCheetah shows 20 pictures a second
        first = np.asarray(picture.convert("RGB"), float)
        picture.seek(19)
        last = np.asarray(picture.convert("RGB"), float)
    assert first.std() > 5 and np.abs(last - first).mean() > 0.5  # a picture, and one that moves


def test_a_small_clip_has_one_palette_and_few_pictures(tmp_path: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    floor = rng.integers(0, 255, (60, 80, 3), np.uint8)
    pictures = []
    for i in range(20):
        pixels = floor.copy()
        pixels[20:40, 2 * i : 2 * i + 20] = (200, 30, 30)
        pictures.append(Image.fromarray(pixels))
    sizes = {}
    for colors in (None, video.SMALL_COLORS):
        out = tmp_path / f"{colors}.gif"
        video.write(iter(pictures), out, 12.5, colors)
        with Image.open(out) as clip:
            assert getattr(clip, "n_frames", 1) == 20 and clip.info["duration"] == 80
        sizes[colors] = out.stat().st_size
    assert sizes[video.SMALL_COLORS] < 0.25 * sizes[None]  # what does not move is not written again


def test_the_zoo_is_small() -> None:
    clips = list((Path(__file__).parents[2] / "models").glob("*/replay.*"))
    assert clips and sum(clip.stat().st_size for clip in clips) < 250_000 * len(clips)


def test_a_renderer_that_does_not_work_is_named(tmp_path: Path) -> None:
    done = play(str(save_policy(tmp_path / "policy")), "--out", str(tmp_path / "a.gif"), MUJOCO_GL="nonsense")
    assert done.returncode == 2
    assert "MUJOCO_GL=nonsense does not work here" in done.stderr and "Traceback" not in done.stderr


def test_missing_libraries_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    for name in [name for name in sys.modules if name.split(".")[0] == "mujoco"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(video, "_TRY", "raise SystemExit(1)")  # as on a machine without either library
    with pytest.raises(InputError, match=r"libosmesa6.*libegl1"):
        video.choose_renderer()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--out", "clip.avi"], "ends in .gif or .mp4"),
        (["--out", "clip.gif", "--episodes", "0"], "episodes must be greater than 0"),
        (["--out", "clip.gif", "--seconds", "-1"], "seconds must be greater than 0"),
    ],
)
def test_bad_input(tmp_path: Path, argv: list[str], message: str) -> None:
    done = play(str(save_policy(tmp_path / "policy")), *argv)
    assert done.returncode == 2 and message in done.stderr


def test_pygame_is_named_where_a_task_is_drawn_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    env = gym.make("Pendulum-v1", render_mode="rgb_array")
    env.reset(seed=0)
    with pytest.raises(
        InputError, match=r"drawn with pygame, which is not installed: pip install 'geoact\[play\]'"
    ):
        video._picture(env, 32)


def test_mp4_without_its_package_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(InputError, match="imageio-ffmpeg"):
        video.check_format(tmp_path / "clip.mp4")


def test_the_camera_follows() -> None:
    """They would run out of the picture, also where the free camera is told what to follow: it stays where it is."""
    from geoact import environments

    for env_id in ("HalfCheetah-v5", "Walker2d-v4"):
        env = environments.make(env_id, render_mode="rgb_array")
        video._follow(env)
        renderer: Any = env.get_wrapper_attr("mujoco_renderer")
        assert renderer.camera_id == renderer.model.camera("track").id
        env.close()
    env = environments.make("dm_control/walker-walk", render_mode="rgb_array")
    video._follow(env)
    assert env.get_wrapper_attr("render_kwargs")["camera_id"] == 0
    env.close()
    env = environments.make("Pendulum-v1", render_mode="rgb_array")
    video._follow(env)  # no MuJoCo, nothing to do
    env.close()
