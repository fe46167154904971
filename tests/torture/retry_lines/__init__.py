"""Both lines of a group on the fake broker: members die at any call, while messages wait."""
