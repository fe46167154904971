"""What the process of the retry line logs is written by the one that started it."""

import logging
import pickle

import pytest

from linear_retry.log.relay import levels, log_relayed, relay_logs


def _other_process(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """The root logger, as a program finds it that sets up no logging."""
    root = logging.RootLogger(logging.WARNING)
    monkeypatch.setattr(logging, "root", root)  # not in a fixture: pytest adds its handlers then
    return root


def test_what_another_process_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is sent with its text made, its traceback and its fields, so that it can be pickled."""
    root, sent = _other_process(monkeypatch), list[logging.LogRecord]()
    relay_logs(sent.append, {"": logging.INFO})
    try:
        raise OSError("down")
    except OSError:
        extra = {"linear_retry_event": "Stopped"}
        root.info("%s was left", object, exc_info=True, extra=extra)
    root.debug("in detail")
    (record,) = (pickle.loads(pickle.dumps(each)) for each in sent)
    assert "<class 'object'> was left" == record.getMessage().splitlines()[0]
    assert "OSError: down" == record.getMessage().splitlines()[-1]
    assert "Stopped" == record.linear_retry_event


def test_a_process_with_log_handlers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends nothing, and keeps its level: each line would be written twice."""
    root = _other_process(monkeypatch)
    root.addHandler(logging.NullHandler())
    relay_logs(lambda _: pytest.fail("sent"), {"": logging.DEBUG})
    root.error("written here")
    assert logging.WARNING == root.level


def test_the_parent_is_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody reads what is logged then, and no traceback is printed in its place."""

    def send(_: object) -> None:
        raise BrokenPipeError

    root = _other_process(monkeypatch)
    relay_logs(send, {})
    root.error("unread")
    assert "" == capsys.readouterr().err


def test_a_record_of_another_process(caplog: pytest.LogCaptureFixture) -> None:
    """Is logged by the logger of its name here, if that takes its level."""
    shop = logging.getLogger("shop")
    caplog.set_level(logging.INFO, "shop")
    assert logging.INFO == levels()["shop"]
    for level in (logging.DEBUG, logging.INFO):
        log_relayed(shop.makeRecord("shop", level, "there.py", 1, "of %d", (level,), None))
    assert [f"of {logging.INFO}"] == caplog.messages
