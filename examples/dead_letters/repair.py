"""Deals with dead letters: resolves those of the test customer, replays the declined orders."""

import getpass
import sys

from linear_retry.dlq import DeadLetterTopic, Filter, Letter, State

OPEN = Filter(states=(State.OPEN,))
TEST_ORDERS = Filter(states=(State.OPEN,), keys=(b"test",))
DECLINED = Filter(states=(State.OPEN,), exceptions=("402 Payment Required",))


def main(*, dry_run: bool) -> None:
    """Prints what is open; then changes it, unless it is a dry run."""
    with DeadLetterTopic("orders.dlq", {"bootstrap.servers": "localhost:9092"}) as topic:
        for letter, _ in topic.letters(OPEN):
            print(described(letter))
        if not dry_run:
            repair(topic, by=getpass.getuser())


def described(letter: Letter) -> str:
    """One line about a letter, with its key and value, which may be confidential."""
    value = (letter.value or b"").decode(errors="replace")
    return f"{letter.id} {letter.reason} {letter.exception_type}: {value}"


def repair(topic: DeadLetterTopic, by: str) -> None:
    """Resolves first: what is resolved is not open any more, and so is not replayed."""
    resolved = topic.resolve(TEST_ORDERS, by=by, why="orders of the test customer")
    print("resolved:", resolved)
    with topic.plan_replay(DECLINED) as plan:
        if absent := topic.absent_groups(plan):
            sys.exit(f"nobody would handle them: no such group: {', '.join(absent)}")
        for each in plan.partitions:
            print(f"{each.letters} to {each.source.topic}[{each.source.partition}]")
        print("replayed:", topic.replay(plan, by=by, why="free orders are accepted now"))


if __name__ == "__main__":
    main(dry_run="--yes" not in sys.argv)
