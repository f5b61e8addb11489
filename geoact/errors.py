"""The errors a user can cause. Each is one sentence; the command line prints it and exits.

`InputError` (and its kin) means bad input: nothing was started, exit code 2.
`TrainingFailed` means a run that had started could not go on: it is marked failed, exit code 1.
"""

STOPPED = 130
"""Exit code of a process that was asked to stop; what it did is saved and can go on."""


class InputError(ValueError):
    """What was given cannot be used; the message says what was expected and what to do."""


class FileFormatError(InputError):
    """A file is damaged, foreign or of a newer format."""


class NewerFormatError(FileFormatError):
    """A file was written by a newer version: not damaged, but not to be guessed at."""


class TrainingFailed(RuntimeError):
    """A run stopped because going on would be wrong (non-finite numbers, divergence, a dead worker)."""
