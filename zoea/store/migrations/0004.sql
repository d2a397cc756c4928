-- Rows that `memory.keep` removes are looked for in every table that refers to them: without these, each removal read
-- whole tables, however long the memory.

CREATE INDEX memory_request ON memory(request_id) WHERE request_id IS NOT NULL;
CREATE INDEX memory_message ON memory(message_id) WHERE message_id IS NOT NULL;
CREATE INDEX delivery_memory ON delivery(memory_id) WHERE memory_id IS NOT NULL;
CREATE INDEX approval_any_call ON approval(tool_call_id) WHERE tool_call_id IS NOT NULL;
CREATE INDEX memory_blob_blob ON memory_blob(blob_id);
