-- The ledger of one box: operations, batches, deliveries and claims, in the contract's words.
-- What the contract rules out, this schema refuses. The name in each RAISE is what the refusal reports.
-- Order is by sequence, never by time: a box boots in the past.

CREATE TABLE box (
    one                  INTEGER PRIMARY KEY CHECK (one = 1),
    -- Signs callback tokens. Never leaves the box.
    callback_secret      BLOB NOT NULL CHECK (length(callback_secret) = 32),
    created_unix_ms      INTEGER NOT NULL,
    created_synchronised INTEGER NOT NULL CHECK (created_synchronised IN (0, 1)),
    -- How often the file was opened again after the disk had failed.
    reopened             INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TRIGGER box_secret_is_kept BEFORE UPDATE ON box
WHEN NEW.callback_secret IS NOT OLD.callback_secret
BEGIN SELECT RAISE(ABORT, 'box_secret_is_kept'); END;

CREATE TABLE boot (
    sequence             INTEGER PRIMARY KEY AUTOINCREMENT,
    boot_id              TEXT NOT NULL UNIQUE CHECK (boot_id GLOB 'boot_*'),
    started_unix_ms      INTEGER NOT NULL,
    started_synchronised INTEGER NOT NULL CHECK (started_synchronised IN (0, 1))
) STRICT;

CREATE TABLE batch (
    sequence             INTEGER PRIMARY KEY AUTOINCREMENT,
    batch_id             TEXT NOT NULL UNIQUE CHECK (batch_id GLOB 'bat_*'),
    session_id           TEXT NOT NULL CHECK (session_id GLOB 'ses_*'),
    response_id          TEXT NOT NULL CHECK (response_id GLOB 'rsp_*'),
    party_id             TEXT,
    language             TEXT NOT NULL CHECK (language IN ('es', 'en')),
    state                TEXT NOT NULL CHECK (state IN ('open', 'sealed', 'drained', 'closed'))
) STRICT;

CREATE INDEX batch_not_closed ON batch (sequence) WHERE state <> 'closed';

CREATE TRIGGER batch_identity_is_kept BEFORE UPDATE ON batch
WHEN NEW.batch_id IS NOT OLD.batch_id OR NEW.session_id IS NOT OLD.session_id OR NEW.response_id IS NOT OLD.response_id
  OR (OLD.party_id IS NOT NULL AND NEW.party_id IS NOT OLD.party_id)
BEGIN SELECT RAISE(ABORT, 'batch_identity_is_kept'); END;

CREATE TRIGGER batch_never_goes_back BEFORE UPDATE OF state ON batch
WHEN instr('open sealed drained closed', NEW.state) < instr('open sealed drained closed', OLD.state)
BEGIN SELECT RAISE(ABORT, 'batch_never_goes_back'); END;

CREATE TABLE operation (
    sequence              INTEGER PRIMARY KEY AUTOINCREMENT,
    operation_id          TEXT NOT NULL UNIQUE CHECK (operation_id GLOB 'op_*'),
    -- R1: what makes an effect "the same one" is accepted once.
    intent_key            TEXT NOT NULL UNIQUE CHECK (intent_key <> ''),
    batch_id              TEXT NOT NULL REFERENCES batch (batch_id),
    ordinal               INTEGER NOT NULL CHECK (ordinal >= 0),
    party_id              TEXT,
    session_id            TEXT NOT NULL CHECK (session_id GLOB 'ses_*'),
    turn_id               TEXT NOT NULL CHECK (turn_id GLOB 'trn_*'),
    tool                  TEXT NOT NULL CHECK (tool <> ''),
    arguments             TEXT NOT NULL CHECK (json_valid(arguments) AND length(arguments) <= 1048576),
    state                 TEXT NOT NULL CHECK (state IN ('accepted', 'running', 'retry_wait', 'succeeded', 'failed', 'unknown',
                                                         'cancelling', 'cancelled', 'compensated', 'too_late')),
    attempt               INTEGER NOT NULL CHECK (attempt >= 0),
    -- R2: an attempt that is over may have taken effect.
    maybe_executed        INTEGER NOT NULL CHECK (maybe_executed IN (0, 1)),
    result                TEXT CHECK (result IS NULL OR (json_valid(result) AND length(result) <= 1048576)),
    error                 TEXT CHECK (error IS NULL OR length(error) <= 65536),
    accepted_unix_ms      INTEGER NOT NULL,
    accepted_synchronised INTEGER NOT NULL CHECK (accepted_synchronised IN (0, 1)),
    UNIQUE (batch_id, ordinal),
    -- I4: success is durable only together with what it says.
    CHECK (state <> 'succeeded' OR result IS NOT NULL),
    -- R2: what runs or waits for another attempt has had one.
    CHECK (state NOT IN ('running', 'retry_wait') OR attempt > 0)
) STRICT;

CREATE INDEX operation_not_terminal ON operation (state, sequence)
WHERE state IN ('accepted', 'running', 'retry_wait', 'cancelling', 'unknown');

-- A batch that has drained has its closing. (One that is sealed may be created, with its operations, in one commit.)
CREATE TRIGGER operation_comes_before_the_closing BEFORE INSERT ON operation
WHEN (SELECT state FROM batch WHERE batch_id = NEW.batch_id) IN ('drained', 'closed')
  OR EXISTS (SELECT 1 FROM delivery WHERE batch_id = NEW.batch_id AND kind = 'final')
BEGIN SELECT RAISE(ABORT, 'operation_comes_before_the_closing'); END;

CREATE TRIGGER operation_identity_is_kept BEFORE UPDATE ON operation
WHEN NEW.operation_id IS NOT OLD.operation_id OR NEW.intent_key IS NOT OLD.intent_key OR NEW.batch_id IS NOT OLD.batch_id
  OR NEW.ordinal IS NOT OLD.ordinal OR NEW.session_id IS NOT OLD.session_id OR NEW.turn_id IS NOT OLD.turn_id
  OR NEW.tool IS NOT OLD.tool OR NEW.arguments IS NOT OLD.arguments
  OR (OLD.party_id IS NOT NULL AND NEW.party_id IS NOT OLD.party_id)
BEGIN SELECT RAISE(ABORT, 'operation_identity_is_kept'); END;

CREATE TRIGGER operation_attempt_never_goes_down BEFORE UPDATE OF attempt ON operation
WHEN NEW.attempt < OLD.attempt
BEGIN SELECT RAISE(ABORT, 'operation_attempt_never_goes_down'); END;

CREATE TRIGGER operation_maybe_executed_is_kept BEFORE UPDATE OF maybe_executed ON operation
WHEN NEW.maybe_executed < OLD.maybe_executed
BEGIN SELECT RAISE(ABORT, 'operation_maybe_executed_is_kept'); END;

CREATE TRIGGER operation_terminal_is_kept BEFORE UPDATE ON operation
WHEN OLD.state IN ('succeeded', 'failed', 'cancelled', 'compensated', 'too_late')
 AND (NEW.state IS NOT OLD.state OR NEW.result IS NOT OLD.result)
BEGIN SELECT RAISE(ABORT, 'operation_terminal_is_kept'); END;

CREATE TRIGGER operation_is_accepted_once BEFORE UPDATE OF state ON operation
WHEN NEW.state = 'accepted' AND OLD.state <> 'accepted'
BEGIN SELECT RAISE(ABORT, 'operation_is_accepted_once'); END;

CREATE TABLE delivery (
    sequence             INTEGER PRIMARY KEY CHECK (sequence >= 0),
    delivery_id          TEXT NOT NULL UNIQUE CHECK (delivery_id GLOB 'dlv_*'),
    batch_id             TEXT NOT NULL REFERENCES batch (batch_id),
    kind                 TEXT NOT NULL CHECK (kind IN ('final', 'correction')),
    party_id             TEXT,
    session_id           TEXT NOT NULL CHECK (session_id GLOB 'ses_*'),
    state                TEXT NOT NULL CHECK (state IN ('ready', 'claimed', 'speaking', 'spoken', 'uncertain', 'superseded',
                                                        'suppressed', 'withdrawn', 'handed_off')),
    attempt              INTEGER NOT NULL CHECK (attempt >= 0),
    -- [{operation, text, heard}]
    clauses              TEXT NOT NULL CHECK (json_type(clauses) = 'array' AND length(clauses) <= 1048576),
    short                TEXT NOT NULL CHECK (json_type(short) = 'object' AND length(short) <= 1048576),
    priority             TEXT NOT NULL CHECK (priority IN ('normal', 'urgent')),
    can_interrupt        TEXT NOT NULL CHECK (can_interrupt IN ('agent', 'caller')),
    ride                 TEXT NOT NULL CHECK (ride IN ('first', 'last')),
    strict               INTEGER NOT NULL CHECK (strict IN (0, 1)),
    uncertain            TEXT NOT NULL CHECK (uncertain IN ('check', 'repeat', 'suppress')),
    stale_after_ms       INTEGER CHECK (stale_after_ms >= 0),
    ready_unix_ms        INTEGER NOT NULL,
    ready_synchronised   INTEGER NOT NULL CHECK (ready_synchronised IN (0, 1)),
    superseded_by        TEXT REFERENCES delivery (delivery_id),
    CHECK (superseded_by IS NOT delivery_id)
) STRICT;

-- I1: one closing per batch.
CREATE UNIQUE INDEX delivery_one_final_per_batch ON delivery (batch_id) WHERE kind = 'final';
CREATE INDEX delivery_of_batch ON delivery (batch_id);
CREATE INDEX delivery_waiting ON delivery (sequence)
WHERE state NOT IN ('spoken', 'superseded', 'suppressed', 'withdrawn', 'handed_off');

CREATE TRIGGER delivery_identity_is_kept BEFORE UPDATE ON delivery
WHEN NEW.delivery_id IS NOT OLD.delivery_id OR NEW.sequence IS NOT OLD.sequence OR NEW.batch_id IS NOT OLD.batch_id
  OR NEW.kind IS NOT OLD.kind OR NEW.session_id IS NOT OLD.session_id
  OR (OLD.party_id IS NOT NULL AND NEW.party_id IS NOT OLD.party_id)
BEGIN SELECT RAISE(ABORT, 'delivery_identity_is_kept'); END;

CREATE TRIGGER delivery_attempt_never_goes_down BEFORE UPDATE OF attempt ON delivery
WHEN NEW.attempt < OLD.attempt
BEGIN SELECT RAISE(ABORT, 'delivery_attempt_never_goes_down'); END;

-- I10: kept, never audible afterwards.
CREATE TRIGGER delivery_terminal_is_kept BEFORE UPDATE OF state ON delivery
WHEN OLD.state IN ('spoken', 'superseded', 'suppressed', 'withdrawn', 'handed_off') AND NEW.state IS NOT OLD.state
BEGIN SELECT RAISE(ABORT, 'delivery_terminal_is_kept'); END;

-- A closing tells what became of every operation: none may still be under way.
CREATE TRIGGER delivery_final_needs_settled_operations BEFORE INSERT ON delivery
WHEN NEW.kind = 'final' AND EXISTS (
    SELECT 1 FROM operation
    WHERE batch_id = NEW.batch_id AND state IN ('accepted', 'running', 'retry_wait', 'cancelling'))
BEGIN SELECT RAISE(ABORT, 'delivery_final_needs_settled_operations'); END;

-- R5: evidence for every clause, before the delivery counts as spoken.
CREATE TRIGGER delivery_spoken_needs_evidence BEFORE UPDATE ON delivery
WHEN NEW.state = 'spoken' AND (json_array_length(NEW.clauses) = 0
  OR EXISTS (SELECT 1 FROM json_each(NEW.clauses) AS clause WHERE clause.value ->> '$.heard' IS NULL))
BEGIN SELECT RAISE(ABORT, 'delivery_spoken_needs_evidence'); END;

CREATE TRIGGER delivery_is_created_waiting BEFORE INSERT ON delivery
WHEN NEW.state IN ('speaking', 'spoken', 'uncertain')
BEGIN SELECT RAISE(ABORT, 'delivery_is_created_waiting'); END;

-- I17: one claim per delivery, over sessions and boots.
CREATE TABLE claim (
    delivery_id          TEXT PRIMARY KEY REFERENCES delivery (delivery_id),
    session_id           TEXT NOT NULL CHECK (session_id GLOB 'ses_*'),
    boot_id              TEXT NOT NULL REFERENCES boot (boot_id),
    route                TEXT NOT NULL CHECK (route IN ('announce', 'ride'))
) STRICT, WITHOUT ROWID;

CREATE INDEX claim_of_boot ON claim (boot_id);

CREATE TRIGGER claim_needs_a_live_delivery BEFORE INSERT ON claim
WHEN (SELECT state FROM delivery WHERE delivery_id = NEW.delivery_id)
     IN ('spoken', 'superseded', 'suppressed', 'withdrawn', 'handed_off')
BEGIN SELECT RAISE(ABORT, 'claim_needs_a_live_delivery'); END;

CREATE TRIGGER claim_is_not_taken_over BEFORE UPDATE ON claim
BEGIN SELECT RAISE(ABORT, 'claim_is_not_taken_over'); END;
