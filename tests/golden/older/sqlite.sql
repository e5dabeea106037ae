PRAGMA user_version = 5;
CREATE TABLE pairs (
        id BLOB PRIMARY KEY, principal TEXT NOT NULL, conversation TEXT NOT NULL, sibling TEXT,
        touched_ms INTEGER NOT NULL, record TEXT NOT NULL
    ) STRICT;
CREATE INDEX pairs_sibling ON pairs (sibling, principal) WHERE sibling IS NOT NULL;
CREATE TABLE conversations (
        key TEXT PRIMARY KEY, principal TEXT NOT NULL, updated_ms INTEGER NOT NULL, record TEXT NOT NULL
    ) STRICT;
CREATE TABLE response_ids (
        principal TEXT NOT NULL, shown TEXT NOT NULL, upstream TEXT NOT NULL, touched_ms INTEGER NOT NULL,
        PRIMARY KEY (principal, shown)
    ) STRICT, WITHOUT ROWID;
CREATE TABLE "handoffs" (
        id BLOB PRIMARY KEY, principal TEXT NOT NULL, conversation TEXT NOT NULL, wire TEXT NOT NULL,
        created_ms INTEGER NOT NULL, archived INTEGER NOT NULL, parent BLOB, model TEXT,
        history_bytes INTEGER NOT NULL, origin TEXT NOT NULL, reason TEXT, prompt TEXT NOT NULL, head TEXT NOT NULL
    , spelled_out INTEGER) STRICT;
CREATE INDEX handoffs_newest ON handoffs (created_ms, id);
CREATE TABLE cut_points (
        handoff BLOB PRIMARY KEY, principal TEXT NOT NULL, conversation TEXT NOT NULL, digest TEXT NOT NULL,
        touched_ms INTEGER NOT NULL, record TEXT NOT NULL
    ) STRICT;
CREATE INDEX cut_points_digest ON cut_points (digest, principal);
CREATE TABLE insertions (
        id BLOB PRIMARY KEY, principal TEXT NOT NULL, conversation TEXT NOT NULL, place TEXT,
        touched_ms INTEGER NOT NULL, record TEXT NOT NULL
    ) STRICT;
CREATE INDEX insertions_place ON insertions (place, principal) WHERE place IS NOT NULL;
INSERT INTO pairs VALUES (X'01A2055EF0DB72C1935AB88AD60720E1', 'local', '3b89746e557d864d31f5a11a6cef1aca', 'toolu_read', 1795386437851, '{"id":"01a2055e-f0db-72c1-935a-b88ad60720e1","principal":"local","conversation":"3b89746e557d864d31f5a11a6cef1aca","wire":"anthropic","tool":"session_handoff","call_id":"toolu_0b25e3d56420e12c4a6b","call":"{\"type\":\"tool_use\",\"id\":\"toolu_0b25e3d56420e12c4a6b\",\"name\":\"session_handoff\",\"input\":{\"prompt\":\"Goal: the writer.\\nNext: writer.rs.\"}}","answer":{"text":"Handoff queued; it runs when this turn ends.","error":false},"place":{"beside":{"sibling":"toolu_read","offset":0}},"pending":["Goal: the writer.\nNext: writer.rs.",null],"created_ms":1795386437851}');
INSERT INTO conversations VALUES ('3b89746e557d864d31f5a11a6cef1aca', 'local', 1795386437851, '{"key":"3b89746e557d864d31f5a11a6cef1aca","principal":"local","tooled":true,"active":"01a2055e-f0ca-76a3-b4b2-f5c4faccceb7","pairs":["01a2055e-f0db-72c1-935a-b88ad60720e1"],"created_ms":1795386437806,"updated_ms":1795386437851,"version":4}');
INSERT INTO handoffs VALUES (X'01A2055EF0CA76A3B4B2F5C4FACCCEB7', 'local', '3b89746e557d864d31f5a11a6cef1aca', 'anthropic', 1795386437834, 0, NULL, 'claude-strict-1', 595, 'model', 'done', 'Goal: skip BOMs.
Next: reader.rs.', '{"role":"user","content":"Goal: skip BOMs.\nNext: reader.rs."}', 1);
INSERT INTO cut_points VALUES (X'01A2055EF0CA76A3B4B2F5C4FACCCEB7', 'local', '3b89746e557d864d31f5a11a6cef1aca', '57d95d1a1d4b73b47ffbc437e0e92a34', 1795386437834, '{"handoff":"01a2055e-f0ca-76a3-b4b2-f5c4faccceb7","principal":"local","conversation":"3b89746e557d864d31f5a11a6cef1aca","turns":3,"digest":"57d95d1a1d4b73b47ffbc437e0e92a34","texts":[1378540790,3816039900,2934427218],"created_ms":1795386437834}');
