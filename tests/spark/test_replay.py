"""Letters chosen by a condition are sent as `linear_retry.dlq` sends them."""

import json
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its usual name)
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.dlq import Filter
from linear_retry.errors import UnknownTopicError
from linear_retry.kafka.consumer.messages import read
from linear_retry.spark import DEAD_LETTERS, Lake, LakeError, Replayed, dead_letters, replay
from tests.dlq.conftest import scene  # noqa: F401  (a fixture)
from tests.dlq.scene import NewScene, Scene
from tests.spark.records import frame

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("interpreted")]


def _ingested(spark: SparkSession, path: Path, *scenes: Scene) -> Lake:
    """What an ingest makes of the letters that are there, without a stream's cost."""
    lake = Lake(spark, str(path))
    records = [read(message) for each in scenes for message in each.kafka.read(each.letters)]
    ids: list[Column] = []
    for given in scenes:
        facts: Any = given.cluster.topics.describe([given.letters])[given.letters]
        ids += F.lit(given.letters), F.lit(str(facts.id))
    rows = dead_letters(frame(spark, records, with_own_times=True))
    lake.replace(rows.withColumn("topic_id", F.create_map(*ids)[F.col("topic")]), DEAD_LETTERS)
    return lake


def _run(lake: Lake, given: Scene, where: str, *more: str) -> tuple[int, str, str]:
    options = ["--lake", lake.path, "--bootstrap", given.kafka.bootstrap, "--where", where]
    result = CliRunner().invoke(app, ["spark", "replay", *options, *more])
    return result.exit_code, result.stdout, result.stderr


def _of_two_kinds(given: Scene) -> None:
    """As they came: neither in their order, nor each once, nor in their own partitions."""
    given.commits("billing")
    places = [(1, 5), (0, 2), (1, 3), (0, 7), (0, 2), (1, 4)]
    for number, (partition, offset) in enumerate(places):
        reason = "permanent" if offset == 4 else "exhausted"
        given.add_letters([given.letter(partition, offset, reason=reason)], number % 2)


def test_what_is_chosen_is_sent_as_by_dlq(
    spark: SparkSession,
    scene: NewScene,  # noqa: F811
    tmp_path: Path,
) -> None:
    """A plan unless it is meant; then in the original order, once, and recorded as ever."""
    given = scene(2)
    _of_two_kinds(given)
    lake = _ingested(spark, tmp_path, given)
    where = "reason = 'exhausted' AND key = 'key' AND timestamp > '2020-01-01'"
    chosen = f"5 letters of {given.letters} chosen\n"
    older = (  # that of another reason
        "warning: 1 older open letter of the same keys would stay, and be handled after newer "
        "ones: replay or resolve what is older first\n"
    )
    code, out, err = _run(lake, given, where)
    assert (0, "4 letters would be sent; --yes does it", chosen + older) == (
        code,
        out.splitlines()[-1],
        err,
    )
    assert {} == given.arrived()
    code, out, err = _run(lake, given, where, "--yes", "--why", "fixed")
    became = "0 handled, 4 not read yet, 0 came back as new dead letters\n"
    assert (0, "4 letters sent", chosen + older + became) == (code, out.splitlines()[-1], err)
    assert {0: [(2, 1), (7, 1)], 1: [(3, 1), (5, 1)]} == given.arrived()
    assert "fixed" == json.loads(given.recorded()[0][1] or b"")["why"]
    nothing = f"nothing to do: no open letters in {given.letters} that match\n"
    assert (0, "", chosen + nothing) == _run(lake, given, where, "--yes")
    assert 1 == given.replay()
    assert [(3, 1), (5, 1), (4, 1)] == given.arrived()[1]


def test_what_the_topic_has_no_longer_is_counted_and_not_sent(
    spark: SparkSession,
    scene: NewScene,  # noqa: F811
    tmp_path: Path,
) -> None:
    """What is recorded of such a letter may be gone with it: perhaps it was sent already."""
    given = scene()
    given.add_letters([given.letter(0, number) for number in range(4)])
    given.write(("odd", b"1"))
    lake = _ingested(spark, tmp_path, given)
    given.replay(Filter(limit=2))
    with given.topic as topic:
        topic.purge()
    to = scene()
    found = replay(
        *(spark, given.config | {"kafka.retries": "1"}, lake, "offset <> 3"),
        by="test",
        to=to.source,
    )
    assert Replayed(given.letters, chosen=4, gone=2, sent=2) == found
    assert 2 == len(list(given.kafka.read(to.source)))
    code, out, _ = _run(lake, given, "true", "--json", "--yes")
    assert 0 == code
    chosen, lane, end = map(json.loads, out.splitlines())
    assert {"topic": given.letters, "chosen": 5, "gone": 2} == chosen
    assert (1, 3, 1) == (lane["letters"], lane["first_offset"], end["sent"])
    text = f"5 letters of {given.letters} chosen, 2 of which a retention or a purge has removed\n"
    assert text in _run(lake, given, "true")[2]


@pytest.fixture
def two(spark: SparkSession, scene: NewScene, tmp_path: Path) -> tuple[Lake, Scene]:  # noqa: F811
    """A lake of two topics, and one of these."""
    given, other = scene(), scene()
    for each in (given, other):
        each.add_letters([each.letter(0, 1)])
    return _ingested(spark, tmp_path, given, other), given


_NO_CONDITIONS = {
    "": "Syntax error, unexpected empty statement",
    "reason ==== 'x'": "Syntax error at or near '=='",
    "nope = 1": "parameter with name `nope` cannot be resolved. Did you mean",
    "reason": 'Filter expression "reason" of type "STRING" is not a boolean',
    "count(*) > 1": "contains invalid expressions: count(1)",
    "offset = (SELECT max(offset) FROM journal)": "The table or view `journal` cannot be found",
    "row_number() OVER (ORDER BY offset) = 1": "not allowed to use window functions",
    "explode(array(true))": "The generator is not supported",
    "true; DROP TABLE x": "Syntax error at or near ';'",
    "offset > 'a'": 'cannot be cast to "BIGINT" because it is malformed',
    "cast(reason AS int) = 1": '\'exhausted\' of the type "STRING" cannot be cast to "INT"',
    "true": "letters of 'source-",
}


def test_what_is_no_condition_is_one_line(two: tuple[Lake, Scene]) -> None:
    """Whatever is wrong with it, what is sent is nothing; letters of two topics are no choice."""
    lake, given = two
    for where, text in _NO_CONDITIONS.items():
        code, out, err = _run(lake, given, where, "--yes")
        assert (2, "", 1, True) == (code, out, err.count("\n"), text in err), (where, err)
        assert err.startswith(json.dumps(where)[:40]), err
    assert {} == given.arrived()
    assert (0, "", f"nothing to do: no letters in {lake.path} that match\n") == _run(
        lake, given, "false"
    )
    code, out, _ = _run(lake, given, "false", "--json")
    chosen, end = map(json.loads, out.splitlines())
    assert (0, None, 0, 0) == (code, chosen["topic"], chosen["chosen"], end["sent"])


def test_a_lake_of_another_topic_sends_nothing(two: tuple[Lake, Scene]) -> None:
    """A topic made again has other letters at the same offsets; and the lake may be empty."""
    lake, given = two
    where = f"topic = '{given.letters}'"
    given.kafka.delete_topic(given.letters)
    with pytest.raises(UnknownTopicError):
        replay(lake.spark, given.config, lake, where, by="test")
    given.kafka.create_topic(given.letters)
    given.add_letters([given.letter(0, 1)])
    with pytest.raises(LakeError, match=f"rows of another topic '{given.letters}'"):
        replay(lake.spark, given.config, lake, where, by="test")
    assert {} == given.arrived()
    empty = with_changes(lake, path=f"{lake.path}/nothing")
    assert (3, True) == (
        (text := _run(empty, given, where))[0],
        "run `linear-retry spark ingest` first" in text[2],
    )
    (parquet,) = Path(lake.path).glob(f"{DEAD_LETTERS}/*.parquet")
    parquet.write_bytes(b"garbage of a length that no footer has")
    with pytest.raises(LakeError, match="the table `dead_letters` cannot be read"):
        replay(lake.spark, given.config, lake.path, where, by="test")
