-- Where a mysis was made from stays known when a later session begins with its own newest commit, and a beginning without the conversation is noted.

ALTER TABLE ctx_origin ADD COLUMN birth_seq INTEGER REFERENCES ctx_commit(seq);  -- the commit that it was made from; NULL for one that was not
ALTER TABLE ctx_origin ADD COLUMN fresh_at INTEGER;       -- when its newest session began without the conversation, because that could not be read
UPDATE ctx_origin SET birth_seq = coalesce(
  (SELECT l.new FROM ctx_reflog l JOIN mysis y ON y.id = ctx_origin.mysis_id
   WHERE l.name IN ('@' || y.name, 'deleted/' || y.name || '-' || y.id) AND l.reason IN ('fork', 'ask')
   AND l.new IN (SELECT seq FROM ctx_commit) ORDER BY l.id DESC LIMIT 1),
  CASE WHEN after_memory = 0 THEN commit_seq END);
