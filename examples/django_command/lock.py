"""Locks the example's database for a while: `python lock.py SECONDS`."""

import sqlite3
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    database = sqlite3.connect(Path(__file__).with_name("db.sqlite3"))
    database.execute("BEGIN EXCLUSIVE")
    print("locked", flush=True)
    time.sleep(float(sys.argv[1]))
    database.rollback()
