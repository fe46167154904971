"""The newest snapshot is there for all, and whoever waits is woken by the next."""

import asyncio

from linear_retry.console.live.hub import Hub, Trouble


def test_only_a_change_makes_a_version() -> None:
    """Else every page would be sent what it has."""
    hub = Hub()
    hub.change(read=5, total=10)
    hub.change(read=5)
    assert 1 == hub.newest.version
    hub.change(read=6)
    assert (2, 6, 10) == (hub.newest.version, hub.newest.read, hub.newest.total)


def test_trouble_keeps_its_beginning() -> None:
    """However often it is said, and in other words."""
    hub = Hub()
    hub.troubled("no answer")
    begun = hub.newest.trouble
    assert begun is not None
    hub.troubled("brokers down")
    assert Trouble("brokers down", begun.since_ms) == hub.newest.trouble
    hub.troubled(None)
    assert hub.newest.trouble is None


def test_a_group_is_watched_for_half_a_minute_after_a_look() -> None:
    """What costs the brokers something is asked for only then, and of that group alone."""
    now_s = 100.0
    hub = Hub(lambda: now_s)
    seen = [hub.watched()]
    hub.look(["billing"])
    now_s = 120.0
    hub.look(["orders"])
    seen.append(hub.watched())
    now_s = 131.0
    seen.append(hub.watched())
    assert [set(), {"billing", "orders"}, {"orders"}] == seen


def test_the_next_version_wakes_those_who_wait() -> None:
    """And so does the end; a version that is there already is not waited for."""

    async def wait() -> None:
        hub = Hub()
        for act in (lambda: hub.change(read=hub.newest.read + 1), hub.close):
            waiting = asyncio.create_task(hub.changed(hub.newest.version, 60.0))
            await asyncio.sleep(0)
            await asyncio.to_thread(act)
            await waiting
        await hub.changed(hub.newest.version, 60.0)

    asyncio.run(asyncio.wait_for(wait(), 30))
