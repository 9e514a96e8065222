-- Leases, documents and decisions.
--
-- Every row says by which writing it came to be: `version` is named by whoever
-- replaces it, `write` tells a writer who lost its connection whether it was
-- the one, `transaction` lets a reader ask for what changed since it last
-- looked. What is removed stays for a day as a row without content, so that
-- both can be told of it.

-- Versions are never given out twice, not even for a key that was removed and
-- came back.
CREATE SEQUENCE sessionguard.versions AS bigint;

-- Keys sort by their bytes, as they do in every other store.
CREATE TABLE sessionguard.leases (
    key         text COLLATE "C" PRIMARY KEY,
    version     bigint NOT NULL DEFAULT nextval('sessionguard.versions'),
    record      text,
    write       uuid NOT NULL,
    transaction bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX leases_by_transaction ON sessionguard.leases (transaction);
CREATE INDEX leases_removed ON sessionguard.leases (changed_at) WHERE record IS NULL;

CREATE TABLE sessionguard.documents (
    kind        text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    version     bigint NOT NULL DEFAULT nextval('sessionguard.versions'),
    content     text,
    write       uuid NOT NULL,
    transaction bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (kind, id)
);
CREATE INDEX documents_by_transaction ON sessionguard.documents (transaction);
CREATE INDEX documents_removed ON sessionguard.documents (changed_at) WHERE content IS NULL;

-- The id is a UUIDv7, so that the oldest come first.
CREATE TABLE sessionguard.decisions (
    id    uuid NOT NULL,
    json  text NOT NULL,
    bytes integer NOT NULL,
    PRIMARY KEY (id) INCLUDE (bytes)
);
CREATE TABLE sessionguard.decision_names (
    name text COLLATE "C" NOT NULL,
    id   uuid NOT NULL REFERENCES sessionguard.decisions (id) ON DELETE CASCADE,
    PRIMARY KEY (name, id)
);
CREATE INDEX decision_names_by_id ON sessionguard.decision_names (id);

-- Makes edits all or none, in one statement. Documents are taken in one order,
-- so that two callers never wait for each other. The same writing asked for
-- once more, after its answer was lost, is found to be done.
CREATE FUNCTION sessionguard.edit(
    kinds text[], ids text[], expected_versions bigint[], contents text[], writing uuid
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    wanted record;
BEGIN
    FOR wanted IN
        SELECT e.kind, e.id, e.expected, e.content
        FROM unnest(kinds, ids, expected_versions, contents) AS e (kind, id, expected, content)
        ORDER BY e.kind COLLATE "C", e.id COLLATE "C"
    LOOP
        IF wanted.content IS NOT NULL AND coalesce(wanted.expected, 0) = 0 THEN
            INSERT INTO sessionguard.documents AS d (kind, id, content, write)
            VALUES (wanted.kind, wanted.id, wanted.content, writing)
            ON CONFLICT (kind, id) DO UPDATE
            SET version = excluded.version, content = excluded.content, write = excluded.write,
                transaction = excluded.transaction, changed_at = excluded.changed_at
            WHERE d.content IS NULL OR wanted.expected IS NULL;
        ELSIF wanted.expected = 0 THEN
            PERFORM 1 WHERE NOT EXISTS (
                SELECT 1 FROM sessionguard.documents AS d
                WHERE d.kind = wanted.kind AND d.id = wanted.id AND d.content IS NOT NULL
            );
        ELSE
            UPDATE sessionguard.documents AS d
            SET version = nextval('sessionguard.versions'), content = wanted.content,
                write = writing, transaction = pg_current_xact_id()::text::bigint,
                changed_at = clock_timestamp()
            WHERE d.kind = wanted.kind AND d.id = wanted.id AND d.content IS NOT NULL
                AND (wanted.expected IS NULL OR d.version = wanted.expected);
            CONTINUE WHEN wanted.expected IS NULL;
        END IF;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'SG409';
        END IF;
    END LOOP;
    RETURN true;
EXCEPTION WHEN SQLSTATE 'SG409' THEN
    -- What was done up to here is taken back.
    RETURN EXISTS (
        SELECT 1 FROM sessionguard.documents AS d
        JOIN unnest(kinds, ids) AS e (kind, id) ON d.kind = e.kind AND d.id = e.id
        WHERE d.write = writing
    );
END
$$;
