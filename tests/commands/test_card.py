"""`geoact card`: what it passes on and says; what a card is, is tested with deployment."""

import pytest

from geoact.commands.card import Card, run
from geoact.deploy import card
from geoact.errors import InputError


def test_a_card_of_a_policy_is_written_and_uploaded(player, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(card, "push", lambda folder, repository: f"hub/{repository}/{folder.name}")
    out = tmp_path / "card"
    assert run(Card(player.path, out=out, episodes=2, env="tests.probes:Reach-v0", push="me/reach")) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [  # before them: it cannot be filmed
        f"{out}: return -0.01 +/- 0.00 over 2 episodes",
        "uploaded: hub/me/reach/card",
    ]
    assert {"policy.json", "policy.safetensors", "README.md", "results.json"} <= {
        f.name for f in out.iterdir()
    }


def test_options_check_themselves(tmp_path):
    with pytest.raises(InputError, match="episodes must be greater than 0"):
        Card(tmp_path, out=tmp_path, episodes=0)
    with pytest.raises(InputError, match="seed must be between 0 and"):
        Card(tmp_path, out=tmp_path, seed=2**32 - 1)
