"""A letter that is too large shrinks in the order that loses least."""

import base64
import hashlib
import json
from dataclasses import replace

from linear_retry.records.dead_letter import (
    DeadLetter,
    FailureInfo,
    parse,
    reference,
    smaller_forms,
    to_dead_letter,
)
from linear_retry.records.record import Record
from linear_retry.records.text import ErrorText

_RECORD = Record("orders", 3, 1042, 5, b"ann", b"v" * 2000, (("trace", b"x" * 10), ("n", None)))
_ERROR = ErrorText("builtins.ValueError", "no", "Traceback")
_FAILURE = FailureInfo("billing", "exhausted", 3, 1, 2, "s@1", _ERROR)
_LETTER = to_dead_letter(_RECORD, _FAILURE)


def _without_texts(letter: DeadLetter) -> DeadLetter:
    return replace(letter, error=ErrorText(_ERROR.type, None, None))


def test_the_stack_goes_first_then_the_message() -> None:
    """The message's own parts are whole in every form that is not a reference."""
    without_stack = replace(_LETTER, error=replace(_ERROR, stack=None))
    expected = [without_stack, _without_texts(_LETTER)]
    assert expected == list(smaller_forms(_LETTER, None))


def test_a_letter_without_an_exception_has_no_smaller_form() -> None:
    """There is nothing to leave out of a letter that an operator asked for."""
    letter = replace(_LETTER, error=None)
    assert [] == list(smaller_forms(letter, None))


def test_references_drop_headers_before_the_key() -> None:
    """An envelope keeps as much beside it as the topic takes."""
    references = list(smaller_forms(_LETTER, _RECORD))[2:]
    kept = [(form.key, len(form.original_headers), form.error) for form in references]
    bare = ErrorText(_ERROR.type, None, None)
    assert [(b"ann", 2, _ERROR), (b"ann", 0, _ERROR), (None, 0, bare)] == kept


def test_every_form_is_the_same_letter() -> None:
    """Identity, generation, origin and reason are in every form, and each is read back."""
    for form in (_LETTER, *smaller_forms(_LETTER, _RECORD)):
        assert form == parse(form.headers(), form.key, form.value)
        assert ("billing/orders/3/1042/ce6f69c92335", 1) == (form.retry_id, form.generation)


def test_the_envelope() -> None:
    """The envelope says where the message is, how large it was, and how it began."""
    letter = reference(_LETTER, replace(_RECORD, topic="orders.fixed", offset=7))
    assert letter.value is not None
    assert "reference" == letter.oversized
    assert {
        "topic": "orders.fixed",
        "partition": 3,
        "offset": 7,
        "timestamp_ms": 5,
        "value": {
            "bytes": 2000,
            "sha256": hashlib.sha256(b"v" * 2000).hexdigest(),
            "start_base64": base64.b64encode(b"v" * 1024).decode(),
        },
        "key": {
            "bytes": 3,
            "sha256": hashlib.sha256(b"ann").hexdigest(),
            "start_base64": base64.b64encode(b"ann").decode(),
        },
        "key_kept": True,
        "headers": {"count": 2, "bytes": 16},
        "headers_kept": True,
    } == json.loads(letter.value)


def test_a_tombstone_with_huge_headers_can_be_referred_to() -> None:
    """No value is null in the envelope, which is small whatever the headers are."""
    record = replace(_RECORD, value=None, headers=(("h", b"x" * 1_000_000),))
    letter = reference(to_dead_letter(record, _FAILURE), record, keep_headers=False)
    assert letter.value is not None
    assert json.loads(letter.value)["value"] is None
    size_bytes = sum(len(name) + len(value or b"") for name, value in letter.headers())
    assert size_bytes + len(letter.value) < 2000
