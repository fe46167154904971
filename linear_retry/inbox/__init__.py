"""Effects once: the handler's transaction has the place of its message too.

`LinearConsumer(..., inbox=Inbox(engine))` gives the handler each message with an open transaction
of the application's own database, in which the consumer notes that the message is done.
"""

try:
    from linear_retry.inbox.inbox import Inbox
except ModuleNotFoundError as error:
    library, _, _ = (error.name or "").partition(".")
    raise ModuleNotFoundError(
        f"{library} is missing: pip install 'linear-retry[scheduler]'", name=library
    ) from None

__all__ = ["Inbox"]
