"""The pytest plugin gives users' tests brokers, and costs the others nothing."""

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

_IMPORTS = "import sys, pytest_linear_retry; print(*sys.modules)"


def _run(pytester: pytest.Pytester, code: str) -> pytest.RunResult:
    pytester.makepyfile(code)
    # In a process of its own, as users do: found by its entry point.
    return pytester.runpytest_subprocess("-p", "no:cacheprovider")


def test_loading_the_plugin_loads_neither_the_library_nor_kafka() -> None:
    """pytest starts no slower for who does not ask for a broker."""
    loaded = subprocess.run(
        [sys.executable, "-c", _IMPORTS], check=True, capture_output=True, text=True
    )
    names = {name.split(".")[0] for name in loaded.stdout.split()}
    assert {"pytest_linear_retry"} == names & {
        "pytest_linear_retry",
        "linear_retry",
        "confluent_kafka",
        "pybreaker",
    }


def test_a_test_gets_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    """`embedded_kafka` runs, is empty for each test, and has ended after it."""
    ended = _run(
        pytester,
        """
        import pytest
        from linear_retry import UsageError

        seen = []

        @pytest.mark.parametrize("time", [1, 2])
        def test_produce(embedded_kafka, time):
            embedded_kafka.create_topic("orders")
            embedded_kafka.produce("orders", [b"book"])
            assert embedded_kafka.offsets("orders") == {("orders", 0): [0]}
            seen.append(embedded_kafka)

        def test_over():
            for kafka in seen:
                with pytest.raises(UsageError):
                    kafka.bootstrap
        """,
    )
    ended.assert_outcomes(passed=3)


def test_a_test_gets_several_with_several_brokers(pytester: pytest.Pytester) -> None:
    """`embedded_kafka_factory` makes as many as are asked for, as they are asked for."""
    ended = _run(
        pytester,
        """
        def test_brokers(embedded_kafka_factory):
            one, three = embedded_kafka_factory(), embedded_kafka_factory(brokers=3)
            assert len(one.bootstrap.split(",")) == 1
            assert len(three.bootstrap.split(",")) == 3
        """,
    )
    ended.assert_outcomes(passed=1)


def test_the_fixtures_have_descriptions(pytester: pytest.Pytester) -> None:
    """`pytest --fixtures` shows both, with a sentence."""
    shown = pytester.runpytest_subprocess("--fixtures", "-p", "no:cacheprovider")
    shown.stdout.fnmatch_lines(["embedded_kafka *", "*with one broker*"])
    shown.stdout.fnmatch_lines(["embedded_kafka_factory *", "*EmbeddedKafka*"])
