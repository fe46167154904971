"""The tables of an index, and what makes a search in them fast."""

VERSION = 5
"""Of the tables and of what is written to them: an index of another version is built again."""

# An index holds no values. A row is at most about 3 KiB, a usual one 350 bytes; with the search in
# errors an index of a million letters takes 0.6 GB.
KEY_BYTES = 256
NAME_CHARACTERS = ERROR_CHARACTERS = 512
PATTERN_CHARACTERS = 200
KINDS = 10_000
KINDS_WITHOUT_MESSAGE = 90_000
HEADERS = 32

TABLES = (
    # A number of a letter means the same only within one epoch.
    "CREATE TABLE about AS SELECT lower(hex(randomblob(8))) AS epoch",
    "CREATE TABLE topic (name TEXT PRIMARY KEY, id TEXT, read_ms INTEGER)",
    'CREATE TABLE position (topic TEXT, partition INTEGER, "offset" INTEGER,'
    " PRIMARY KEY (topic, partition)) WITHOUT ROWID",
    "CREATE TABLE resolution (digest BLOB, generation INTEGER, state TEXT, by TEXT, at_ms INTEGER,"
    " why TEXT, PRIMARY KEY (digest, generation)) WITHOUT ROWID",
    # What letters have in common: few rows, which filters and groups read in place of the letters.
    "CREATE TABLE kind (id INTEGER PRIMARY KEY, group_id TEXT, origin TEXT, reason TEXT,"
    " error TEXT, pattern TEXT)",
    "CREATE TABLE tally (kind_id INTEGER, state TEXT, letters INTEGER,"
    " PRIMARY KEY (kind_id, state)) WITHOUT ROWID",
    'CREATE TABLE letter (id INTEGER PRIMARY KEY, partition INTEGER, "offset" INTEGER,'
    " at_ms INTEGER, failed_ms INTEGER, name TEXT, digest BLOB, generation INTEGER,"
    " kind_id INTEGER, state TEXT, key BLOB, error TEXT, origin_partition INTEGER,"
    " origin_offset INTEGER, size_bytes INTEGER, headers TEXT)",
    # Of each header a hash of name and value; the list in the letter is what a removal goes by.
    "CREATE TABLE header (hash INTEGER, letter_id INTEGER,"
    " PRIMARY KEY (hash, letter_id)) WITHOUT ROWID",
    'CREATE UNIQUE INDEX letter_place ON letter (partition, "offset")',
    "CREATE INDEX letter_identity ON letter (digest, generation)",
    "CREATE INDEX letter_key ON letter (key, at_ms, id)",
    # It has all that most filters ask for, so that a page of them reads no other letter.
    "CREATE INDEX letter_time ON letter (at_ms, id, kind_id, state)",
    "CREATE INDEX letter_kind ON letter (kind_id, state, at_ms)",
    "CREATE TRIGGER letter_added AFTER INSERT ON letter BEGIN"
    " INSERT INTO tally VALUES (new.kind_id, new.state, 1)"
    " ON CONFLICT DO UPDATE SET letters = letters + 1;"
    " INSERT OR IGNORE INTO header SELECT value, new.id FROM json_each(new.headers); END",
    "CREATE TRIGGER letter_removed AFTER DELETE ON letter BEGIN"
    " UPDATE tally SET letters = letters - 1"
    " WHERE kind_id = old.kind_id AND state = old.state;"
    " DELETE FROM header WHERE letter_id = old.id"
    " AND hash IN (SELECT value FROM json_each(old.headers)); END",
    "CREATE TRIGGER letter_changed AFTER UPDATE OF state ON letter BEGIN"
    " UPDATE tally SET letters = letters - 1"
    " WHERE kind_id = old.kind_id AND state = old.state;"
    " INSERT INTO tally VALUES (new.kind_id, new.state, 1)"
    " ON CONFLICT DO UPDATE SET letters = letters + 1; END",
)

SEARCH = "search"
# Without `detail=none` it is twice as large.
TRIGRAMS = (
    f"CREATE VIRTUAL TABLE {SEARCH} USING fts5 (error, content='letter', content_rowid='id',"
    " tokenize='trigram', detail=none)",
    "CREATE TRIGGER search_added AFTER INSERT ON letter BEGIN"
    f" INSERT INTO {SEARCH} (rowid, error) VALUES (new.id, new.error); END",
    "CREATE TRIGGER search_removed AFTER DELETE ON letter BEGIN"
    f" INSERT INTO {SEARCH} ({SEARCH}, rowid, error) VALUES ('delete', old.id, old.error); END",
)
"""Not in every SQLite: FTS5 with trigrams, since 3.34."""

NAMES = (SEARCH, "letter", "header", "tally", "kind", "resolution", "position", "topic", "about")
