"""Tags and a note beside a run."""

import pytest

from geoact.errors import FileFormatError, InputError
from geoact.storage import notes
from geoact.storage.notes import Notes


def test_there_and_back(tmp_path):
    assert notes.read(tmp_path) == Notes()
    written = Notes(("good", "paper"), "look: \u00e9\nat this")
    notes.write(tmp_path, written)
    assert notes.read(tmp_path) == written


def test_changes():
    before = Notes(("a", "b"), "why")
    assert before.changed() == before
    assert before.changed(add=("c", "a"), remove=("b",)) == Notes(("a", "c"), "why")
    assert before.changed(note="") == Notes(("a", "b"), "")
    assert before.changed(remove=("none",)) == before


@pytest.mark.parametrize("tag", ["", "two words", "a,b", "tab\t"])
def test_a_tag_is_one_word(tag):
    with pytest.raises(InputError, match="a tag is one word without commas"):
        Notes().changed(add=(tag,))


@pytest.mark.parametrize("text", ['{"tags": "a"}', '{"tags": [1]}', '{"note": 3}', "[]", "{"])
def test_a_damaged_file_is_named(text, tmp_path):
    (tmp_path / "notes.json").write_text(text)
    with pytest.raises(FileFormatError, match=r"notes\.json"):
        notes.read(tmp_path)
