"""The errors a user can cause, and the exit codes that they become."""

import pytest

from geoact import cli, errors


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (errors.InputError("give another"), 2, "geoact: give another\n"),
        (errors.FileFormatError("a file is damaged"), 2, "geoact: a file is damaged\n"),
        (errors.NewerFormatError("upgrade"), 2, "geoact: upgrade\n"),
        (errors.TrainingFailed("diverged"), 1, "geoact: the run failed: diverged\n"),
        (OSError("the disk is full"), 1, "geoact: the disk is full\n"),
        (KeyboardInterrupt(), errors.STOPPED, ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_one_line_and_an_exit_code(error, code, said, monkeypatch, capsys):
    def dispatch(argv: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "dispatch", dispatch)
    assert cli.main([]) == code
    assert capsys.readouterr().err == said


def test_what_is_wrong_with_input_is_a_value_error_for_python():
    assert issubclass(errors.FileFormatError, errors.InputError) and issubclass(errors.InputError, ValueError)
    assert not issubclass(errors.TrainingFailed, ValueError)
