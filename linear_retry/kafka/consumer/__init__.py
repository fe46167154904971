"""The consumer's client: settings, errors, messages, membership, committed offsets."""
