"""The demo: a consumer while its dependency is down, and the proof that it kept its promises."""
