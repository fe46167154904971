"""The scheduler's HTTP API: what waits and what is dead, seen and changed by those who may."""

from linear_retry.scheduler.http.access import Access, networks
from linear_retry.scheduler.http.app import create_app
from linear_retry.scheduler.http.server import HttpServer, Tls, serve
from linear_retry.scheduler.http.users import Users, read_users

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
