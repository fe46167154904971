"""The demo: a consumer whose dependency goes down, and the proof that it kept its guarantees."""
