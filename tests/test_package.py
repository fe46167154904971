"""Imports, foreign libraries and exceptions keep to their rooms."""

import ast
import importlib
import importlib.metadata
import inspect
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import get_args

import pytest

import linear_retry
from tests.patience import PATIENCE_S

_ROOT = Path(linear_retry.__file__).parent
_PACKAGE = "linear_retry"


@cache
def _modules() -> dict[str, ast.Module]:
    """Every module of the package, read from source: nothing is imported for it."""
    found = {}
    for path in sorted(_ROOT.rglob("*.py")):
        parts = path.relative_to(_ROOT.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text())
    return found


def _targets(node: ast.AST) -> Iterator[str]:
    """The modules that one import statement names, submodules distinguished from other names."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            submodules = [f"{module}.{alias.name}" for alias in names]
            inner = [name for name in submodules if name in _modules()]
            yield from inner
            if len(inner) < len(submodules):
                yield module
        case ast.ImportFrom():
            raise AssertionError("a relative import: write the whole name")


@cache
def _imports(name: str) -> set[str]:
    """What a module imports, in its functions too."""
    return {target for node in ast.walk(_modules()[name]) for target in _targets(node)}


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


_EVERYONES = {"errors", "events", "scope"}
_MAY_IMPORT = {
    **dict.fromkeys(_EVERYONES, _EVERYONES),
    "files": {"files"},
    "records": {"records"} | _EVERYONES,
    "log": {"log", "records"} | _EVERYONES,
    "kafka": {"kafka", "records"} | _EVERYONES,
    "retry": {"retry", "log", "records"} | _EVERYONES,
    "strategy": {"strategy", "files", "records", "retry"} | _EVERYONES,
    "journal": {"journal", "kafka", "log", "records"} | _EVERYONES,
    "consumer": {"consumer", "files", "journal", "kafka", "log", "records", "retry", "strategy"}
    | _EVERYONES,
    "monitoring": {"monitoring", "consumer", "kafka", "log", "outbox", "records", "retry"}
    | _EVERYONES,
    "testing": {"testing", "kafka", "records", "retry"} | _EVERYONES,
    # The root is what a user imports: demos show that, so they import it too.
    "": {"consumer", "journal", "kafka", "retry", "strategy"} | _EVERYONES,
    "demo": {"", "demo", "kafka", "log", "records", "retry", "testing"} | _EVERYONES,
    # To rehearse a replay it asks a consumer how it judges failures.
    "dlq": {"dlq", "consumer", "files", "kafka", "records", "retry"} | _EVERYONES,
    "store": {"store", "files", "kafka", "log", "records", "retry", "strategy"} | _EVERYONES,
    "inbox": {"inbox", "consumer", "kafka", "log", "records", "retry", "store"} | _EVERYONES,
    "outbox": {"outbox", "store", "kafka", "log", "records", "retry", "strategy"} | _EVERYONES,
    "scheduler": {
        *("", "scheduler", "store", "consumer", "files", "inbox", "kafka", "log", "monitoring"),
        *("records", "retry", "strategy", "web"),
    }
    | _EVERYONES,
    "console": {
        "",
        *("console", "dlq", "files", "journal", "kafka", "log", "monitoring", "records", "retry"),
        *("scheduler", "store", "strategy", "web"),
    }
    | _EVERYONES,
    "web": {"web", "files"} | _EVERYONES,
    "report": {"report"},
    # What it asks of Kafka, it asks as `dlq` does, and its scheduler sends as the other one does;
    # the rest is Spark's own client's.
    "spark": {
        *("spark", "consumer", "dlq", "files", "journal", "kafka", "log", "records"),
        *("report", "retry", "scheduler", "store", "strategy"),
    }
    | _EVERYONES,
    "cli": {
        *(
            "",
            "cli",
            "console",
            "consumer",
            "demo",
            "dlq",
            "files",
            "journal",
            "kafka",
            "log",
            "monitoring",
            "records",
            "retry",
        ),
        *("outbox", "scheduler", "spark", "store", "strategy", "web"),
    }
    | _EVERYONES,
}
_PURE = {
    *("errors", "events", "scope", "files", "retry.decision", "retry.retry_after"),
    *("journal.entry", "journal.group_state", "journal.episodes", "journal.outages"),
    "strategy.tuning.solver",
}
_PURE_ROOMS = {"records", "strategy"}


def _room(module: str) -> str:
    return module.removeprefix(_PACKAGE).removeprefix(".").split(".")[0]


def _arrows() -> list[tuple[str, str]]:
    return [
        (name, target)
        for name in _modules()
        for target in sorted(_imports(name))
        if _within(target, _PACKAGE)
    ]


def test_folders_are_layers() -> None:
    """No two folders import each other, in functions and for annotations neither; a folder's face,
    its `__init__`, may import from all over its room."""
    faces = {name.rpartition(".")[0] for name in _modules()}
    folders = {name: name if name in faces else name.rpartition(".")[0] for name in _modules()}
    arrows = {
        (folders[module], folders[target])
        for module, target in _arrows()
        if module not in faces and folders[module] != folders[target]
    }
    assert [] == sorted(pair for pair in arrows if pair[::-1] in arrows)


def test_the_arrows_have_no_circle() -> None:
    """What a room may import never leads back to it."""
    TopologicalSorter(
        {room: may - {room, *_EVERYONES} for room, may in _MAY_IMPORT.items()}
    ).prepare()


def test_every_room_has_its_arrows() -> None:
    """A new room says here what it may import."""
    assert set() == {_room(name) for name in _modules()} - set(_MAY_IMPORT)


def test_imports_follow_the_arrows() -> None:
    """cli -> demo -> consumer -> kafka, decision, strategy -> errors, events, scope: never back."""
    wrong = [
        f"{name} -> {target}"
        for name, target in _arrows()
        if _room(target) not in _MAY_IMPORT[_room(name)]
    ]
    assert [] == wrong


def test_no_module_needs_itself() -> None:
    """Imports have no circle, not even one that is hidden in a function."""
    graph = {
        name: {target for target in _imports(name) if target in _modules()} - {name}
        for name in _modules()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


_OWNERS = {
    *("retry.circuits", "consumer.partitions.assignment"),
    *("consumer.partitions.offsets", "consumer.partitions.read_ahead"),
    *("consumer.ownership.requests", "consumer.operations.monitor"),
}


@pytest.mark.parametrize("owner", sorted(_OWNERS))
def test_the_owners_do_not_know_one_another(owner: str) -> None:
    """Each has one piece of state and nobody else's; who joins them is above them."""
    known = _imports(f"{_PACKAGE}.{owner}") & {f"{_PACKAGE}.{other}" for other in _OWNERS}
    assert set() == known


def _pure_modules() -> list[str]:
    inner = {name.removeprefix(f"{_PACKAGE}.") for name in _modules() if _room(name) in _PURE_ROOMS}
    return sorted(inner | _PURE)


@pytest.mark.parametrize("module", _pure_modules())
def test_the_pure_rooms_read_no_clock_and_draw_nothing(module: str) -> None:
    """Time and chance are arguments: the same values, the same answer."""
    outside = {"time", "random", "secrets", "threading", "socket", "subprocess", "asyncio"}
    assert set() == outside & _imports(f"{_PACKAGE}.{module}")


_DOORS = {
    "confluent_kafka": ["kafka"],
    "pybreaker": ["retry.circuits"],
    "typer": ["cli"],
    "rich": ["cli", "demo"],
    "orjson": ["cli", "demo", "dlq"],
    "httpx": ["demo"],
    "numpy": ["spark.reporting", "spark.history.tuning", "strategy.tuning"],
    "pandas": [
        "report",
        "spark.reporting",
        "spark.scheduler",
        "spark.history.tuning",
    ],
    "opentelemetry": ["monitoring.otel_metrics", "monitoring.tracing"],
    "prometheus_client": ["monitoring.metrics", "monitoring.outbox_metrics", "scheduler.http"],
    "pytest": ["testing.pytest_plugin"],
    "pyarrow": ["spark.scheduler"],
    "pyspark": ["spark"],
    # An application's transaction may be SQLAlchemy's, or psycopg's.
    "sqlalchemy": ["store", "scheduler.intake", "scheduler.start", "inbox"],
    "psycopg": ["store.application.borrowed"],
    "alembic": ["store.migrations"],
    "anyio": ["scheduler.http"],
    "argon2": ["web.security"],
    "fastapi": ["console", "scheduler.http"],
    "pydantic": ["scheduler.http"],
    "starlette": ["cli.options.http", "console", "scheduler.http", "web"],
    "uvicorn": ["web.server"],
    "altair": ["report"],
    "vl_convert": ["report.charts"],
    "jinja2": ["console.frame.rendering", "report.page"],
    "markupsafe": ["report.page"],
    "delta": ["spark.lake"],
    "google": ["kafka.schema_registry"],
    "py4j": ["spark.session"],
}


@pytest.mark.parametrize(("library", "doors"), _DOORS.items())
def test_a_foreign_library_has_one_door(library: str, doors: list[str]) -> None:
    """What another library changes is changed in one place."""
    wrong = [
        name
        for name in _modules()
        if any(_within(target, library) for target in _imports(name))
        and not any(_within(name, f"{_PACKAGE}.{door}") for door in doors)
    ]
    assert [] == wrong


def test_no_other_library_is_there() -> None:
    """What is imported is Python's own, ours, or has a door above."""
    known = {*sys.stdlib_module_names, _PACKAGE, *_DOORS}
    found = {target.split(".")[0] for name in _modules() for target in _imports(name)}
    assert set() == found - known


def test_importing_it_loads_no_more_than_a_consumer_needs() -> None:
    """A service that only consumes does not pay for the command line, the demo or Spark."""
    unneeded = {
        "typer",
        "rich",
        "orjson",
        "httpx",
        "numpy",
        "pandas",
        "pyspark",
        "pytest",
        "psycopg",
        "sqlalchemy",
        "fastapi",
        "hypothesis",
    }
    unneeded |= {"prometheus_client", "opentelemetry"}
    code = (
        "import sys; from linear_retry import *; "
        f"print(*sorted({unneeded!r} & sys.modules.keys()), "
        "*(name for name in sys.modules if name.startswith(('linear_retry.cli', "
        "'linear_retry.demo', 'linear_retry.testing'))))"
    )
    fresh = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert [] == fresh.stdout.split()


def test_what_has_no_consumer_loads_none() -> None:
    """The command line, the tools for dead letters and for tests begin without it."""
    code = (
        "import sys, linear_retry.cli, linear_retry.dlq, linear_retry.testing; "
        "print(*(name for name in sys.modules if name.startswith('linear_retry.consumer')))"
    )
    fresh = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert [] == fresh.stdout.split()


def test_the_public_names_are_sorted_and_complete() -> None:
    """`__all__` is what can be imported, in order; type checkers and the running program take each
    from the same place."""
    assert sorted(linear_retry.__all__) == linear_retry.__all__
    checked = {
        alias.name: node.module
        for node in ast.walk(_modules()[_PACKAGE])
        if isinstance(node, ast.ImportFrom) and _within(str(node.module), _PACKAGE)
        for alias in node.names
    }
    loaded = {name: f"{_PACKAGE}.{home}" for name, home in linear_retry._HOMES.items()}
    assert checked == loaded
    assert set(linear_retry.__all__) == loaded.keys() <= {*dir(linear_retry)}
    assert not hasattr(linear_retry, "Consumer")


@pytest.mark.parametrize("name", linear_retry.__all__)
def test_every_public_name_says_what_it_promises(name: str) -> None:
    """A class or function has a docstring of its own, and so has each public method."""
    item = getattr(linear_retry, name)
    if inspect.isfunction(item):
        assert inspect.getdoc(item)
        return
    if not isinstance(item, type):
        assert get_args(item), f"{name} is neither a class nor a type's name"
        return
    assert item.__dict__.get("__doc__")
    undocumented = [
        key
        for key, member in vars(item).items()
        if not key.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property | classmethod))
        and not inspect.getdoc(member)
    ]
    assert [] == undocumented


@pytest.mark.parametrize("name", sorted(_modules()))
def test_every_module_begins_with_one_line(name: str) -> None:
    """The first line says what the module is or does; more stands in a paragraph of its own."""
    first, *more = (ast.get_docstring(_modules()[name]) or "").split("\n")
    assert first.endswith(".")
    assert "" == "".join(more[:1])


def _first_lines(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (ast.get_docstring(node) or "").splitlines()[:1]


def test_no_docstring_asks() -> None:
    """The first line of a docstring says what the thing is or does, in the indicative."""
    asking = [
        f"{name}: {first}"
        for name, tree in _modules().items()
        for first in _first_lines(tree)
        if "? " in f"{first} "
    ]
    assert [] == asking


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "examples"])
def test_no_docstring_beside_the_package_asks(folder: str) -> None:
    """Nor does one of the tests, the benchmarks or the examples."""
    asking = [
        f"{path.relative_to(_ROOT.parent)}: {first}"
        for path in sorted((_ROOT.parent / folder).rglob("*.py"))
        for first in _first_lines(ast.parse(path.read_text("utf-8")))
        if "? " in f"{first} "
    ]
    assert [] == asking


def test_a_folder_holds_at_most_a_dozen_names() -> None:
    """And the root 24: a reader finds the room by its name, without reading on."""
    folders = {path.parent for path in _ROOT.rglob("*.py")}
    names = {
        folder.relative_to(_ROOT).as_posix(): {
            path.name
            for path in folder.iterdir()
            if path.suffix == ".py" or any(path.rglob("*.py"))
        }
        - {"__init__.py"}
        for folder in folders
    }
    most = {".": 24}
    assert {} == {
        name: len(found) for name, found in names.items() if len(found) > most.get(name, 12)
    }


def test_every_module_can_be_imported_by_itself() -> None:
    """No module needs another to have been imported before."""
    for name in _modules():
        if not _within(name, f"{_PACKAGE}.demo"):  # needs the extra `demo`
            assert importlib.import_module(name).__name__ == name


_CATCHES = {
    # What was not taken is not reported: it is forgotten, and the exception goes on.
    ("kafka.producers.direct", "send", "BaseException"),
    # The bytes may be of any kind, and so is what their decoders raise.
    ("kafka.schema_registry", "decode", "Exception"),
    # Whatever keeps messages out of the store: their senders are told.
    ("outbox.storing", "step", "Exception"),
    # Without this thread nothing would be stored: what fails is logged, and tried again.
    ("outbox.keeper", "_guarded_turn", "BaseException"),
    # The caller's; the next message needs it too.
    ("outbox.storing", "_call_recover", "BaseException"),
    # The transaction is rolled back, and the exception goes on.
    ("inbox.handling", "_transaction", "BaseException"),
    ("inbox.handling", "_async_transaction", "BaseException"),
    # Each library has its own errors of a database that is away; all others go on.
    ("inbox.handling", "_passing", "Exception"),
    # The program whose handler is rehearsed: what it raises is the answer.
    ("dlq.rehearsal.handling", "load", "Exception"),
    ("dlq.rehearsal.handling", "_attempted", "BaseException"),
    # It has a thread of its own: whatever ends it is logged.
    ("outbox.outbox_sender", "_run", "BaseException"),
    # The handler's call: whatever a user may raise is an outcome.
    ("consumer.runners.run_handler", "attempt_all", "Exception"),
    ("consumer.runners.async_hand_over", "attempt_all", "Exception"),
    # Whatever ends a transaction of an attempt's is the attempt's failure, as a handler's error is.
    ("consumer.runners.own_loop", "_each_begun", "Exception"),
    ("consumer.runners.own_loop", "_commit", "Exception"),
    ("consumer.runners.run_handler", "attempt_batch", "Exception"),
    # The key function is the user's: raised, it would end the consumer at each start.
    ("consumer.settings.by_key", "__call__", "Exception"),
    # The recovery callback is the user's: where it raises, it is called again.
    ("consumer.letters.publisher", "send", "Exception"),
    # What ended the thread is raised in the task that awaits it, and the other way round.
    ("consumer.runners.async_hand_over", "run_owner", "BaseException"),
    ("consumer.runners.async_hand_over", "run", "BaseException"),
    # The read-ahead is invalid, and the exception goes on.
    ("consumer.attempts.loop", "turn", "BaseException"),
    ("consumer.lanes.lane_loop", "_run", "BaseException"),
    # What ends a worker's attempt is raised in the owner thread.
    ("consumer.lanes.workers", "_attempt", "BaseException"),
    ("consumer.lanes.tasks", "_attempt", "BaseException"),
    ("consumer.partitions.read_ahead", "_polled", "BaseException"),
    ("spark.streaming.runner", "_error_of", "Exception"),
    # A listener is the user's: it must not disturb the loop.
    ("consumer.operations.monitor", "emit", "Exception"),
    # What ends the retry line is raised where the live line runs, and ends that too.
    ("consumer.runners.together.retry_line", "serve", "BaseException"),
    ("consumer.runners.together.run_together", "_run", "BaseException"),
    # The other line ends first; then it goes on.
    ("consumer.runners.together.run_together", "_beside", "BaseException"),
    ("consumer.runners.together.run_together", "run_together_async", "BaseException"),
    # A user's object, or exception, may raise anything when it is pickled.
    ("consumer.runners.together.retry_process", "_pickled", "Exception"),
    ("consumer.runners.together.retry_line", "_portable", "Exception"),
    # What raises here would be the handler's error, and permanent: a dead letter for an outage.
    ("retry.retry_after", "_read", "Exception"),
    # A bug in a thread of the console is said on the page, which else looks complete for ever.
    ("log.repeating", "_run", "BaseException"),
    # Whatever ends a change is on record, and the exception goes on.
    ("console.state.audit", "recording", "Exception"),
    # A log handler is the program's too, and may raise where its server is down.
    ("log.lines", "write_guarded", "Exception"),
    # An attempt that reached nobody is taken back, and the exception goes on.
    ("consumer.session", "_next_attempt", "BaseException"),
    # What a signal handler raises goes on once the loop is whole.
    ("consumer.ownership.stop", "hear", "BaseException"),
    # pybreaker calls the user's listeners in there.
    ("retry.circuits", "_drive", "Exception"),
    # The predicate is the user's: what it raises becomes a UsageError that says so.
    ("retry.decision", "classify", "Exception"),
    # What leaves a callback makes librdkafka drop messages: kept, and raised afterwards.
    ("kafka.consumer.callbacks", "guarded", "BaseException"),
    # What a call that has a thread of its own comes to is raised by whoever waits for it.
    ("kafka.producers.transactional", "run", "BaseException"),
    ("spark.scheduler.service", "work", "BaseException"),
    # What an attempt raises is recorded in its span, and goes on.
    ("monitoring.tracing", "_inside", "BaseException"),
    # What fails of jobs that Ctrl-C has ended is Ctrl-C; all else is raised on.
    ("spark.session", "_ended_by_signals", "Exception"),
    # A user's __str__ may raise anything, and its exception still needs a dead letter.
    ("records.text", "guarded", "Exception"),
}


def _wide_catches(node: ast.AST, function: str = "") -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ExceptHandler):
            caught = "BaseException" if child.type is None else ast.unparse(child.type)
            names = {part.strip("() ") for part in caught.split(",")}
            yield from ((function, name) for name in names & {"Exception", "BaseException"})
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _wide_catches(child, child.name)
        else:
            yield from _wide_catches(child, function)


def test_everything_is_caught_only_where_a_reason_stands() -> None:
    """`except Exception` hides bugs: each place is listed above with what it is for."""
    found = {
        (name.removeprefix(f"{_PACKAGE}."), function, caught)
        for name, tree in _modules().items()
        if _room(name) not in ("cli", "demo")
        for function, caught in _wide_catches(tree)
    }
    assert found == _CATCHES


def test_lines_are_written_in_one_room() -> None:
    """Whatever happens is an event; only `log` makes lines of them."""
    found = {
        name
        for name in _modules()
        if "logging" in _imports(name) and _room(name) not in ("cli", "demo")
    }
    assert {f"{_PACKAGE}.log.lines", f"{_PACKAGE}.log.relay"} == found


def test_nothing_is_printed() -> None:
    """The library is silent on stdout; the command line and the demo speak there."""
    printing = [
        name
        for name, tree in _modules().items()
        if _room(name) not in ("cli", "demo")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
    ]
    assert [] == printing


def test_the_version_is_that_of_the_installed_distribution() -> None:
    """`linear_retry.__version__` is what pip shows; another name is missing as in any module."""
    assert importlib.metadata.version("linear-retry") == linear_retry.__version__
    with pytest.raises(AttributeError, match="no attribute 'version'"):
        linear_retry.version  # type: ignore[attr-defined]  # noqa: B018
