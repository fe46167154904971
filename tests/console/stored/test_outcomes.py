"""What came of a change is kept for the page that follows it, and not for ever."""

from linear_retry.console.stored.outcomes import Outcome, Outcomes


def test_the_oldest_outcome_makes_room() -> None:
    """However many changes are made, no more are kept than that."""
    outcomes = Outcomes(most=2)
    made = [Outcome("delete", number, number) for number in range(3)]
    tokens = [outcomes.keep(each) for each in made]
    assert [None, *made[1:]] == [outcomes.get(token) for token in tokens]
