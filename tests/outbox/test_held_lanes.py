"""What must go through the store, and what may be sent directly."""

from linear_retry.outbox.held_lanes import HeldLanes


def test_only_the_lanes_with_messages_in_the_store_are_held() -> None:
    """At the start a message is sent directly unless the store has its predecessors."""
    held = HeldLanes({("orders", "key-1")})
    assert held.any
    assert held.holds(("orders", "key-1"))
    assert not held.holds(("orders", "key-2"))


def test_a_failure_holds_every_lane() -> None:
    """A message that has failed is a reason to store all others too."""
    held = HeldLanes(set())
    held.close()
    assert held.holds(("payments", "any"))


def test_a_topic_is_open_again_once_the_store_has_sent_one_of_its_lanes() -> None:
    """Then only the lanes are held of which the store still has messages."""
    held = HeldLanes(set())
    held.close()
    held.add(("orders", "key-1"))
    held.add(("orders", "key-2"))
    held.settle({("orders", "key-1"), ("orders", "key-2")}, set())
    assert held.holds(("orders", "key-3"))
    held.settle({("orders", "key-2")}, set())
    assert held.holds(("orders", "key-2"))
    assert not held.holds(("orders", "key-1"))
    assert not held.holds(("orders", "key-3"))


def test_a_topic_that_takes_nothing_stays_closed_while_others_open() -> None:
    """A missing topic costs the others one detour, not one for each of its keys."""
    held = HeldLanes(set())
    held.close()
    held.add(("missing", "key-1"))
    held.add(("orders", "key-1"))
    held.settle({("missing", "key-1")}, set())
    assert held.holds(("missing", "key-2"))
    assert not held.holds(("orders", "key-1"))


def test_a_failure_of_which_nothing_was_stored_holds_nothing() -> None:
    """The next message tries Kafka again."""
    held = HeldLanes(set())
    held.close()
    held.settle(set(), set())
    assert not held.any
    assert not held.holds(("orders", "any"))
