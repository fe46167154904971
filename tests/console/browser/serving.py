"""A console in this process, for a browser."""

from collections.abc import Iterator
from contextlib import contextmanager

from linear_retry.console.app import create_app
from linear_retry.console.frame.services import Services
from linear_retry.console.state.settings import Settings
from linear_retry.web import Access, serve
from tests.console.conftest import address


@contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """Everyone on this machine is an operator at the address that is given."""
    with (
        Services(settings, Access()) as services,
        serve(create_app(services), services.access, 0) as server,
    ):
        try:
            yield address(server)
        finally:
            services.live.hub.close()
