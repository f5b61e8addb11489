"""`geoact tag`: tags and a note, shown and changed."""

from geoact.cli import main
from geoact.storage import notes


def test_tag(folder, capsys):
    where = ["--runs-dir", str(folder)]
    assert main(["tag", "a", *where]) == 0
    assert capsys.readouterr().out == "tags: none\n"
    assert not (folder / "a" / "notes.json").exists()
    assert main(["tag", str(folder / "a"), "--add", "x", "--add", "y", "--note", "why not"]) == 0
    assert capsys.readouterr().out == "tags: x, y\nnote: why not\n"
    assert main(["tag", "a", *where, "--remove", "x", "--add", "y"]) == 0
    assert notes.read(folder / "a") == notes.Notes(("y",), "why not")
    assert main(["tag", "a", *where, "--note", ""]) == 0
    assert notes.read(folder / "a") == notes.Notes(("y",), "")
    assert main(["tag", "a", *where, "--add", "b,c"]) == 2
    assert notes.read(folder / "a").tags == ("y",)
