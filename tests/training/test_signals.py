"""Asking a run to stop, in this process."""

import os
import signal
import threading

import pytest

from geoact.training.signals import ASKING, StopSignal

SIGNALS = [getattr(signal, name) for name in ASKING if hasattr(signal, name)]


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_becomes_an_answer_and_the_old_handlers_come_back(number: signal.Signals):
    before = handlers()
    with StopSignal() as stop:
        assert not stop() and stop.number is None
        os.kill(os.getpid(), number)
        assert stop() and stop.number == number
    assert handlers() == before


def test_a_second_interrupt_is_one_at_once_and_a_second_request_is_not():
    with StopSignal() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.number == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert stop()


def test_the_old_handlers_come_back_after_an_error_too():
    before = handlers()
    with pytest.raises(RuntimeError), StopSignal():
        raise RuntimeError
    assert handlers() == before


def test_what_is_ignored_stays_ignored():
    """nohup ignores SIGHUP: closing the terminal must not stop the run then."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignal() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop()
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_another_thread_there_are_no_signals_to_take():
    before, found = handlers(), []

    def work() -> None:
        with StopSignal() as stop:
            found.append(stop())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False] and handlers() == before
