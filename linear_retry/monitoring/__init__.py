"""Exposes a consumer to other systems: health endpoint, Prometheus metrics, traces."""
