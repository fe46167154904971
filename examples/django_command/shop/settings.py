"""The settings that matter here; the README has those of PostgreSQL."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).parents[1]
SECRET_KEY = os.environ.get("SECRET_KEY", "only for this example")
INSTALLED_APPS = ["shop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": BASE_DIR / "db.sqlite3",
        "OPTIONS": {
            "timeout": 1,  # seconds; shorter than the consumer's waits
            # Else one that has read before it writes fails at once if another has written.
            "transaction_mode": "IMMEDIATE",
        },
        # The default, 0, would connect again for every message.
        "CONN_MAX_AGE": None,
    }
}

KAFKA_BOOTSTRAP = os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {"linear_retry": {"handlers": ["console"], "level": "INFO"}},
}
