"""`geoact plot`: runs by name or path, into a picture."""

from pathlib import Path

import pytest

from geoact.commands.plot import Plot, run
from geoact.errors import InputError


def test_a_picture_of_runs_by_name_and_path(folder, tmp_path, capsys):
    out = tmp_path / "curve.png"
    assert run(Plot((Path("a"), folder / "b"), runs_dir=folder, out=out)) == 0
    assert capsys.readouterr().out == f"curves: {out}\n"
    assert out.read_bytes().startswith(b"\x89PNG")


def test_what_is_refused(folder, tmp_path):
    with pytest.raises(InputError, match="give at least one run"):
        Plot(())
    with pytest.raises(InputError, match="does not exist"):
        run(Plot((Path("none"),), runs_dir=folder))
    with pytest.raises(InputError, match=r"curve\.exe"):
        run(Plot((folder / "a",), out=tmp_path / "curve.exe"))
