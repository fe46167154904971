"""strategies/README.md is true."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from tests.charges import broker_with_orders, reasons
from tests.docs.markdown import blocks, page

*_, _RELOADED = blocks(page("strategies/README.md"), "python")


def test_a_changed_file_is_in_force_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the next failure on: the message would wait for a day, and is a dead letter at once."""
    (tmp_path / "strategies").mkdir()
    path = tmp_path / "strategies/pay.json"
    path.write_text(json.dumps([0, "1d", "1d"]))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(_RELOADED, names)
    attempts: list[int | None] = []

    def charge(message: Message) -> None:
        attempts.append(message.offset())
        if message.offset() == 1:
            raise SystemExit("handled")
        path.write_text("[0]")
        raise ConnectionError("down")

    with broker_with_orders(b"first", b"second") as broker:
        config = {"bootstrap.servers": broker.bootstrap, "group.id": "billing"}
        with pytest.raises(SystemExit, match="handled"):
            names["consume"](config, charge)
        assert [(b"first", "exhausted")] == reasons(broker)
    assert [0, 0, 1] == attempts
