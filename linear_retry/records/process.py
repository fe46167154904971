"""The process that a member of a group runs in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Process:
    """A member's host, its process there, and its librdkafka `client.id`."""

    host: str
    pid: int
    client_id: str

    def __str__(self) -> str:
        return f"{self.host}, pid {self.pid}, client.id {self.client_id}"
