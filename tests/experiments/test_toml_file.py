"""TOML files that people write by hand: every complaint says where."""

import pytest

from geoact.errors import InputError
from geoact.experiments import toml_file

TEXT = """name = "mine"

[tasks]
"Hopper-v5" = 10
'a b' = 3
[variants.wide]
critic.layer_norm = true
"""


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("name",), 1),
        (("tasks",), 3),
        (("tasks", "Hopper-v5"), 4),
        (("tasks", "a b"), 5),
        (("variants",), 6),  # it stands nowhere by itself: the first line below it
        (("variants", "wide", "critic"), 7),
        (("variants", "wide", "critic", "layer_norm"), 7),
    ],
)
def test_the_line_of_a_key(keys, line, tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(TEXT)
    error = toml_file.load(path, "sweep").refuse(keys, "is wrong")
    assert str(error) == f"{path}: line {line}, {'.'.join(keys)}: is wrong"


def test_a_key_that_is_not_there_has_no_line(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(TEXT)
    assert str(toml_file.load(path, "sweep").refuse(("seeds",), "missing")) == f"{path}: seeds: missing"


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"cannot read the sweep .*none.toml: No such file"):
        toml_file.load(tmp_path / "none.toml", "sweep")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(InputError, match="cannot read the sweep"):
        toml_file.load(tmp_path / "bytes.toml", "sweep")
    (tmp_path / "bad.toml").write_text("a = 1\nb = [1, 2\n")
    with pytest.raises(InputError, match=r"is not TOML: .*near the key b"):
        toml_file.load(tmp_path / "bad.toml", "sweep")
