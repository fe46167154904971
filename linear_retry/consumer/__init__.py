"""The linear consumer, and the owners that it joins."""
