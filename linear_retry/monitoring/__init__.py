"""How a consumer is seen from outside: health endpoint, Prometheus metrics, traces."""
