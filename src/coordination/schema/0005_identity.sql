-- How often callers could not show that they are a party, so that neither a restart nor another call gives more guesses. Nobody's PIN is here.
CREATE TABLE identity_failure (
    party_id             TEXT PRIMARY KEY CHECK (party_id <> '' AND length(party_id) <= 1024),
    -- The order of the latest failures: the oldest goes when there are too many.
    sequence             INTEGER NOT NULL CHECK (sequence >= 1),
    -- Whether it has a PIN at all. Those of others go first, so that nobody's failures are pushed out by names that were made up.
    has_pin              INTEGER NOT NULL CHECK (has_pin IN (0, 1)),
    -- Failures since the last lock-out.
    failures             INTEGER NOT NULL CHECK (failures >= 0),
    -- Lock-outs, each twice as long as the one before.
    lock_outs            INTEGER NOT NULL CHECK (lock_outs >= 0),
    -- For how long nothing of it is looked at, from its latest failure on.
    locked_ms            INTEGER NOT NULL CHECK (locked_ms >= 0),
    -- When that was: on the clock of this life of the process, and by the wall.
    boot_id              TEXT NOT NULL CHECK (boot_id GLOB 'boot_*'),
    failed_ms            INTEGER NOT NULL CHECK (failed_ms >= 0),
    failed_unix_ms       INTEGER NOT NULL,
    failed_synchronised  INTEGER NOT NULL CHECK (failed_synchronised IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX identity_failure_order ON identity_failure (has_pin, sequence);
