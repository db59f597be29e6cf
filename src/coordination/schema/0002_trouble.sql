-- What a box has to know after trouble, and after what is over for long was removed.

-- Times that the file was damaged and set aside: what it was then made of.
CREATE TABLE IF NOT EXISTS loss (
    sequence             INTEGER PRIMARY KEY AUTOINCREMENT,
    boot_id              TEXT NOT NULL CHECK (boot_id GLOB 'boot_*'),
    -- What the check said.
    reason               TEXT NOT NULL,
    -- The damaged file's new name, beside the store.
    set_aside            TEXT NOT NULL,
    -- The backup that took its place; none where an empty store did.
    restored             TEXT,
    -- Operations whose outcome is not known because of it, and deliveries of which it is not known whether they were told.
    operations_unknown   INTEGER NOT NULL,
    deliveries_uncertain INTEGER NOT NULL,
    noticed_unix_ms      INTEGER NOT NULL,
    noticed_synchronised INTEGER NOT NULL CHECK (noticed_synchronised IN (0, 1))
) STRICT;

-- What is never given out twice, also when the rows that used it are gone.
CREATE TABLE IF NOT EXISTS floor (
    one                  INTEGER PRIMARY KEY CHECK (one = 1),
    -- The highest occurrence that a removed intent key ended in.
    occurrence           INTEGER NOT NULL CHECK (occurrence >= 0),
    -- The highest sequence of a removed delivery.
    delivery_sequence    INTEGER NOT NULL CHECK (delivery_sequence >= 0)
) STRICT;

-- For the removal of a delivery: which others refer to it?
CREATE INDEX IF NOT EXISTS delivery_superseded ON delivery (superseded_by) WHERE superseded_by IS NOT NULL;

-- A start reads what is owed, not what is over: how many there are, and which keys were used, it knows without reading the rows.
CREATE INDEX IF NOT EXISTS delivery_over ON delivery (state)
WHERE state IN ('spoken', 'superseded', 'suppressed', 'withdrawn', 'handed_off');
CREATE INDEX IF NOT EXISTS operation_repeated
ON operation (CAST(substr(intent_key, length(rtrim(intent_key, '0123456789')) + 1) AS INTEGER))
WHERE CAST(substr(intent_key, length(rtrim(intent_key, '0123456789')) + 1) AS INTEGER) > 1;
