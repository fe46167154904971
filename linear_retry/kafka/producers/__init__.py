"""The producers: acknowledged, transactional, journal and control."""
