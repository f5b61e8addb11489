"""`geoact play`: where a clip goes, and what is refused before anything is drawn."""

import dataclasses

import pytest

from geoact import runtime
from geoact.commands.play import Play, run
from geoact.errors import InputError
from geoact.report import video
from geoact.runtime import Policy


@pytest.fixture
def recorded(monkeypatch):
    calls: list[tuple[object, ...]] = []

    def record(policy, env, out, episodes, seed, seconds):
        calls.append((env, out, episodes, seed, seconds))
        return [1.5] * episodes

    monkeypatch.setattr(video, "record", record)
    return calls


def test_the_clip_lies_in_the_run_and_never_in_its_policy(player, recorded, capsys):
    home = player.path / "video.gif"
    for path in (player.path, player.policy_path, player.policy_path / "policy.json"):
        assert run(Play(path, episodes=2, seed=5)) == 0
        assert recorded.pop() == ("tests.probes:Reach-v0", home, 2, 5, None)
    assert capsys.readouterr().out.splitlines()[:3] == [
        "episode 1 (seed 5): return 1.5",
        "episode 2 (seed 6): return 1.5",
        f"video: {home}",
    ]


def test_elsewhere_and_shorter(player, recorded, tmp_path):
    assert run(Play(player.path, env="Pendulum-v1", out=tmp_path / "clip.mp4", seconds=2.0)) == 0
    assert recorded == [("Pendulum-v1", tmp_path / "clip.mp4", 1, 0, 2.0)]


def test_what_is_refused(player, recorded):
    policy = runtime.load(player.path)
    spec = dataclasses.replace(policy.spec, about={"env_given": "what the function f makes"})
    Policy(spec, policy.tensors).save(player.policy_path)
    with pytest.raises(InputError, match="cannot be made from its name"):
        run(Play(player.path))
    with pytest.raises(InputError, match="episodes must be greater than 0"):
        Play(player.path, episodes=0)
    assert recorded == []
