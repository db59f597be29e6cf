-- What a later result said that contradicts the one on record: the first wins, this one is kept and reported.
ALTER TABLE operation ADD COLUMN contradiction TEXT
CHECK (contradiction IS NULL OR (json_valid(contradiction) AND length(contradiction) <= 1048576));

CREATE TRIGGER operation_contradiction_is_kept BEFORE UPDATE OF contradiction ON operation
WHEN OLD.contradiction IS NOT NULL AND NEW.contradiction IS NOT OLD.contradiction
BEGIN SELECT RAISE(ABORT, 'operation_contradiction_is_kept'); END;

ALTER TABLE delivery ADD COLUMN audience TEXT NOT NULL DEFAULT 'same_party'
CHECK (audience IN ('same_party', 'verified_party', 'same_call'));
ALTER TABLE delivery ADD COLUMN max_wait_ms INTEGER NOT NULL DEFAULT 10000 CHECK (max_wait_ms >= 0);
ALTER TABLE delivery ADD COLUMN min_quiet_ms INTEGER CHECK (min_quiet_ms >= 0);
ALTER TABLE delivery ADD COLUMN hand_off_after_ms INTEGER CHECK (hand_off_after_ms >= 0);

-- A hand-off is a claim too: while it is under way, nobody speaks. SQLite changes no check of a column, so the table is made anew.
CREATE TABLE claim_with_hand_off (
    delivery_id          TEXT PRIMARY KEY REFERENCES delivery (delivery_id),
    session_id           TEXT NOT NULL CHECK (session_id GLOB 'ses_*'),
    boot_id              TEXT NOT NULL REFERENCES boot (boot_id),
    route                TEXT NOT NULL CHECK (route IN ('announce', 'ride', 'hand_off'))
) STRICT, WITHOUT ROWID;
INSERT INTO claim_with_hand_off SELECT delivery_id, session_id, boot_id, route FROM claim;
DROP TABLE claim;
ALTER TABLE claim_with_hand_off RENAME TO claim;

CREATE INDEX claim_of_boot ON claim (boot_id);

CREATE TRIGGER claim_needs_a_live_delivery BEFORE INSERT ON claim
WHEN (SELECT state FROM delivery WHERE delivery_id = NEW.delivery_id)
     IN ('spoken', 'superseded', 'suppressed', 'withdrawn', 'handed_off')
BEGIN SELECT RAISE(ABORT, 'claim_needs_a_live_delivery'); END;

CREATE TRIGGER claim_is_not_taken_over BEFORE UPDATE ON claim
BEGIN SELECT RAISE(ABORT, 'claim_is_not_taken_over'); END;

-- Only what another way has been asked for can have been acknowledged by it.
CREATE TRIGGER delivery_handed_off_needs_its_claim BEFORE UPDATE OF state ON delivery
WHEN NEW.state = 'handed_off' AND OLD.state <> 'handed_off'
 AND NOT EXISTS (SELECT 1 FROM claim WHERE delivery_id = NEW.delivery_id AND route = 'hand_off')
BEGIN SELECT RAISE(ABORT, 'delivery_handed_off_needs_its_claim'); END;
