"""Changes for a test's audit."""

from linear_retry.console.state.audit import Audit


def record(audit: Audit, actor: str, action: str, subject: str, *, why: str, outcome: str) -> None:
    """Writes a change that has ended."""
    with audit.recording(actor, action, subject, why=why) as recording:
        recording.outcome = outcome
