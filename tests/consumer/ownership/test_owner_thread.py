"""Who may use a consumer, and until when."""

import os
import threading

import pytest

from linear_retry import ConfigurationError, FencedError, UsageError
from linear_retry.consumer.ownership.owner_thread import OwnerThread


def test_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child has none of librdkafka's threads: it would hang, or deliver again."""
    tenure, own = OwnerThread(), os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: own + 1)
    with pytest.raises(UsageError, match="fork"), tenure.use():
        pytest.fail("used")


def test_used_within_its_own_use() -> None:
    """By a handler, or a listener: the poll inside would hand out what is in hand."""
    tenure = OwnerThread()
    with tenure.use(), pytest.raises(UsageError, match="within"), tenure.use():
        pytest.fail("used")
    with tenure.use():
        assert tenure.running


def test_used_by_two_threads() -> None:
    """The second is refused while the first lives, also while that does not use it."""
    tenure, refused = OwnerThread(), list[UsageError]()

    def intrude() -> None:
        try:
            with tenure.use():
                pass
        except UsageError as error:
            refused.append(error)

    with tenure.use():
        """The present thread owns it from now on."""
    thread = threading.Thread(target=intrude)
    thread.start()
    thread.join()
    assert 1 == len(refused)


@pytest.mark.parametrize("error", [FencedError("taken"), ConfigurationError("our own topic")])
def test_what_is_final(error: FencedError | ConfigurationError) -> None:
    """Raised again by each further use; who was fenced has nothing to commit any more."""
    tenure = OwnerThread()
    tenure.joined = True
    with pytest.raises(type(error)), tenure.use():
        raise error
    with pytest.raises(type(error)) as again, tenure.use():
        pytest.fail("used")
    assert error is again.value
    assert tenure.commits == isinstance(error, ConfigurationError)


def test_who_closes() -> None:
    """The owner, once; from within its own use at the end of that."""
    tenure = OwnerThread()
    with tenure.use():
        assert "later" == tenure.claim_close()
    assert tenure.closes_at_end
    assert ["ours", "done", "done"] == [tenure.claim_close() for _ in range(3)]


def test_who_closes_from_elsewhere() -> None:
    """Not another thread: closing deadlocks while the owner polls."""
    tenure, reported = OwnerThread(), list[str]()
    with tenure.use():
        thread = threading.Thread(target=lambda: reported.append(tenure.claim_close()))
        thread.start()
        thread.join()
    assert (["another's"], False) == (reported, tenure.closing)


def test_what_was_cut_short_can_be_closed() -> None:
    """By its owner, at once. The bug: a second Ctrl-C on the last instruction of a use left the
    consumer in use for ever: `close` did nothing, and the member stayed in its group."""
    tenure = OwnerThread()
    with tenure.use():
        tenure.abort()
        assert "ours" == tenure.claim_close()
