"""Values that JSON readers differ in, and whether each is an entry: for Python and for Spark."""

from types import MappingProxyType

_STOPPED = (
    '{"v":1,"event_id":"life/7","at_ms":1,"group":"g","member":"m","event":"Stopped",'
    '"left_group":true}'
)
_CLOSED = (
    '{"v":1,"event_id":"life/7","at_ms":1,"group":"g","member":"m","event":"CircuitClosed",'
    '"scope":{"topic":null,"partition":null},"outcome":"recovered","open_s":0.5}'
)


def _stopped(old: str, new: str) -> str:
    assert old in _STOPPED
    return _STOPPED.replace(old, new)


def _closed(open_s: str) -> str:
    return _CLOSED.replace("0.5", open_s)


def _of_key(place: str) -> str:
    return _CLOSED.replace('"topic":null,"partition":null', place)


_TEXTS = {
    _STOPPED: True,
    _CLOSED: True,
    f" {_STOPPED}\n": True,
    _stopped('"v":1', '"v":1,"v":1'): False,
    _stopped('"v":1', '"v":1,"later":{"a":1,"a":2}'): False,
    _stopped('"v":1', '"v":1,"later":{"a":1,"b":{"a":1}}'): True,
    _stopped('"v":1', '"v":1,"V":2'): True,
    _stopped('"v":1', '"v":"1"'): False,
    _stopped('"v":1', '"v":1.0'): False,
    _stopped('"v":1', '"v":1e0'): False,
    _stopped('"v":1', '"v":true'): False,
    _stopped('"v":1', f'"v":1,"later":{10**30}'): True,
    _stopped('"at_ms":1', '"at_ms":-1'): False,
    _stopped('"at_ms":1', '"at_ms":-0'): True,
    _stopped('"at_ms":1', '"at_ms":1.0'): False,
    _stopped('"at_ms":1', '"at_ms":253402300799999'): True,
    _stopped('"at_ms":1', '"at_ms":253402300800000'): False,
    _stopped('"at_ms":1', f'"at_ms":{2**63}'): False,
    _stopped('"at_ms":1', f'"at_ms":{10**40}'): False,
    _stopped("life/7", f"life/{2**63 - 1}"): True,
    _stopped("life/7", f"life/{2**63}"): False,
    _stopped("life/7", "life/12345678901234567890"): False,
    _closed("1e308"): True,
    _closed("1e400"): False,
    _closed("-1e400"): False,
    _closed(str(10**40)): True,
    _closed(str(10**400)): False,
    _closed("NaN"): False,
    _closed('"0.5"'): False,
    _of_key('"topic":"orders","partition":3,"key":"5a1b7acd8a3f"'): True,
    _of_key('"topic":"orders","partition":3,"key":null'): False,
    _of_key('"topic":"orders","partition":3,"key":7'): False,
    _of_key('"topic":"orders","partition":null,"key":"5a1b7acd8a3f"'): False,
    _of_key('"topic":null,"partition":null,"key":"5a1b7acd8a3f"'): False,
}

CORPUS = MappingProxyType({text.encode(): is_entry for text, is_entry in _TEXTS.items()})
