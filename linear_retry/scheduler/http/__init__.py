"""The scheduler's HTTP API: what waits and what is dead, seen and changed by those who may."""

from linear_retry.scheduler.http.app import create_app
from linear_retry.scheduler.http.security.access import Access, networks
from linear_retry.scheduler.http.security.users import Users, read_users
from linear_retry.scheduler.http.server import HttpServer, Tls, serve

__all__ = [
    "Access",
    "HttpServer",
    "Tls",
    "Users",
    "create_app",
    "networks",
    "read_users",
    "serve",
]
