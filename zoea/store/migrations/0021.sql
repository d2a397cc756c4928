-- What stands instead of a blob from which a text was redacted.

ALTER TABLE blob ADD COLUMN replaced_by INTEGER REFERENCES blob(id);
CREATE INDEX blob_replaced ON blob(replaced_by) WHERE replaced_by IS NOT NULL;
