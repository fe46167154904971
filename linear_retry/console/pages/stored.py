"""The pages of what a store holds: messages that wait, and dead letters."""

from linear_retry.console.frame.page import Page
from linear_retry.console.frame.rendering import Renderer
from linear_retry.console.frame.services import Services


def page(services: Services, renderer: Renderer) -> Page | None:
    """Returns the routes of the pages; without a store there are none."""
    if services.settings.store is None:
        return None
    # The extra `console` alone has no database driver.
    from linear_retry.console.stored.records import StoredRecords
    from linear_retry.console.stored.routes import routes

    records = StoredRecords(services.settings.store)
    return Page(routes(records, services, renderer), "Stored", "/stored", 40)
