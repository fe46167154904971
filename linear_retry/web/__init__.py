"""The HTTP server that the scheduler's API and the console share, and who may use them."""

from linear_retry.web.security.access import Access, networks
from linear_retry.web.security.users import Users, read_users
from linear_retry.web.server import HttpServer, Tls, serve

__all__ = ["Access", "HttpServer", "Tls", "Users", "networks", "read_users", "serve"]
