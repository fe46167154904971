"""Locks an SQLite database for a while, like an outage: `python lock.py FILE SECONDS`."""

import sqlite3
import sys
import time

if __name__ == "__main__":
    database = sqlite3.connect(sys.argv[1])
    database.execute("BEGIN EXCLUSIVE")
    print("locked", flush=True)
    time.sleep(float(sys.argv[2]))
    database.rollback()
