-- Hosts: by which version of what is placed on one, or ordered for it, a claim
-- was decided, so that one that had not seen the others' is refused.
--
-- Locks are taken in one order everywhere: documents by kind and id, then hosts
-- by id, then a lease.

-- `version` is that of the last claim or order by anybody; `since` the one from
-- which on all were `writer`'s, who need not be told of its own. A version is a
-- moment in microseconds, and at least one more than the last: a database that
-- lost its newest rows in a failover does not give one out again for something
-- else. Rows are written at every claim, so there is room on their page, and no
-- index that would have to follow.
CREATE TABLE sessionguard.hosts (
    host        text COLLATE "C" PRIMARY KEY,
    version     bigint NOT NULL DEFAULT 0,
    writer      uuid,
    since       bigint NOT NULL DEFAULT 0,
    transaction bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint)
) WITH (fillfactor = 50);

-- Says that something was placed on a host or ordered for it. Until the
-- transaction ends whoever else wants to waits.
CREATE FUNCTION sessionguard.advance(of_host text, replica uuid)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO sessionguard.hosts AS h (host, version, writer)
    VALUES (of_host, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, replica)
    ON CONFLICT (host) DO UPDATE
    SET version = greatest(h.version + 1, excluded.version),
        since = CASE WHEN h.writer = excluded.writer THEN h.since ELSE h.version END,
        writer = excluded.writer, transaction = excluded.transaction;
END
$$;

-- Writes a lease, or removes it where `content` is null, if it still is of the
-- expected version (0: there is none). Where it places somebody on a host also
-- only if nobody but `replica` has changed that host after `seen`. The same
-- writing asked for once more, after its answer was lost, is found to be done.
CREATE FUNCTION sessionguard.claim(
    wanted text, expected bigint, content text, writing uuid,
    placed_on text, seen bigint, replica uuid,
    OUT outcome text, OUT written bigint
) LANGUAGE plpgsql AS $$
DECLARE
    standing sessionguard.hosts;
    found_lease sessionguard.leases;
    is_behind boolean := false;
BEGIN
    IF placed_on IS NOT NULL THEN
        SELECT * INTO standing FROM sessionguard.hosts AS h WHERE h.host = placed_on FOR UPDATE;
        IF NOT FOUND THEN
            INSERT INTO sessionguard.hosts (host) VALUES (placed_on) ON CONFLICT DO NOTHING;
            SELECT * INTO standing FROM sessionguard.hosts AS h WHERE h.host = placed_on FOR UPDATE;
        END IF;
        is_behind := standing.version > seen
            AND (standing.writer IS DISTINCT FROM replica OR standing.since > seen);
    END IF;

    IF NOT is_behind THEN
        IF expected = 0 THEN
            -- A version is given out under the lock, so that later ones are higher.
            INSERT INTO sessionguard.leases AS l (key, record, write)
            VALUES (wanted, content, writing)
            ON CONFLICT (key) DO UPDATE
            SET version = nextval('sessionguard.versions'), record = excluded.record,
                write = excluded.write, transaction = excluded.transaction,
                changed_at = clock_timestamp()
            WHERE l.record IS NULL
            RETURNING l.version INTO written;
        ELSE
            UPDATE sessionguard.leases AS l
            SET version = nextval('sessionguard.versions'), record = content,
                write = writing, transaction = pg_current_xact_id()::text::bigint,
                changed_at = clock_timestamp()
            WHERE l.key = wanted AND l.version = expected
            RETURNING l.version INTO written;
        END IF;
        IF written IS NOT NULL THEN
            IF placed_on IS NOT NULL THEN
                PERFORM sessionguard.advance(placed_on, replica);
            END IF;
            outcome := 'done';
            RETURN;
        END IF;
    END IF;

    SELECT * INTO found_lease FROM sessionguard.leases AS l WHERE l.key = wanted;
    IF found_lease.write = writing THEN
        outcome := 'done';
        written := found_lease.version;
    ELSIF is_behind AND (
        coalesce(found_lease.version, 0) = expected
        OR expected = 0 AND found_lease.record IS NULL
    ) THEN
        outcome := 'behind';
    ELSE
        outcome := 'conflict';
    END IF;
END
$$;

-- Makes edits all or none, in one statement. Documents are taken in one order,
-- so that two callers never wait for each other. An order for a host waits for
-- the claim on it that is being written, and those that follow have to have
-- seen it. The same writing asked for once more, after its answer was lost, is
-- found to be done.
CREATE FUNCTION sessionguard.edit(
    kinds text[], ids text[], expected_versions bigint[], contents text[], writing uuid,
    replica uuid
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
            SET version = nextval('sessionguard.versions'), content = excluded.content,
                write = excluded.write, transaction = excluded.transaction,
                changed_at = clock_timestamp()
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
    FOR wanted IN
        SELECT DISTINCT e.id COLLATE "C" AS id FROM unnest(kinds, ids) AS e (kind, id)
        WHERE e.kind = 'mode' ORDER BY 1
    LOOP
        PERFORM sessionguard.advance(wanted.id, replica);
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

-- A replica of the release before does not say who it is: everybody has to see
-- what it orders.
CREATE OR REPLACE FUNCTION sessionguard.edit(
    kinds text[], ids text[], expected_versions bigint[], contents text[], writing uuid
) RETURNS boolean LANGUAGE sql AS $$
    SELECT sessionguard.edit(kinds, ids, expected_versions, contents, writing, writing)
$$;
