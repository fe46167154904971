"""The scheduler's HTTP API: what waits and what is dead, seen and changed by those who may."""

from linear_retry.scheduler.http.app import create_app
from linear_retry.scheduler.http.metrics import Served, ServiceMetrics

__all__ = ["Served", "ServiceMetrics", "create_app"]
