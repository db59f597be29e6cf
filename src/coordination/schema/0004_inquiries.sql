-- What a tool calls an operation that it has taken: with it, its result is asked for after a restart.
ALTER TABLE operation ADD COLUMN handle TEXT CHECK (handle IS NULL OR (handle <> '' AND length(handle) <= 4096));

-- Attempts that never left the box because the tool's place could not be reached.
ALTER TABLE operation ADD COLUMN unreached INTEGER NOT NULL DEFAULT 0 CHECK (unreached >= 0);

CREATE TRIGGER operation_unreached_never_goes_down BEFORE UPDATE OF unreached ON operation
WHEN NEW.unreached < OLD.unreached OR NEW.unreached > NEW.attempt
BEGIN SELECT RAISE(ABORT, 'operation_unreached_never_goes_down'); END;
