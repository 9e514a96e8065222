-- Room: a claim is refused for what others placed on its host since only where
-- that may be more than the host had room for when the claim was decided.
-- Replicas that fill the same hosts would else stand in each other's way at
-- every single claim.
--
-- `claims` counts who was ever placed there, `ordered` is the version of the
-- last order. Counts of two servers cannot be compared: one that took over may
-- have lost claims and been given others since. So a row says which server
-- (by when it began to run) wrote it last, and at another one the count leaps
-- further than any host has room.

ALTER TABLE sessionguard.hosts
    ADD COLUMN claims bigint NOT NULL DEFAULT 0,
    ADD COLUMN ordered bigint NOT NULL DEFAULT 0,
    ADD COLUMN server bigint NOT NULL DEFAULT 0;

-- What they were changed for up to here is not known: take it for orders.
UPDATE sessionguard.hosts SET ordered = version;

-- The server that runs now.
CREATE FUNCTION sessionguard.server()
RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint
$$;

-- Says that something was ordered for a host. Until the transaction ends
-- whoever else wants to, or claims there, waits.
CREATE OR REPLACE FUNCTION sessionguard.advance(of_host text, replica uuid)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO sessionguard.hosts AS h (host, version, writer, ordered, server)
    SELECT of_host, moment, replica, moment, sessionguard.server()
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS moment) AS now
    ON CONFLICT (host) DO UPDATE
    SET version = greatest(h.version + 1, excluded.version),
        ordered = greatest(h.version + 1, excluded.version),
        since = CASE WHEN h.writer = excluded.writer THEN h.since ELSE h.version END,
        writer = excluded.writer, transaction = excluded.transaction;
END
$$;

-- Writes a lease, or removes it where `content` is null, if it still is of the
-- expected version (0: there is none). Where it places somebody on a host also
-- only if, after `seen`, nobody but `replica` has ordered anything for that host
-- and no more than `room` were placed there since there had been `seen_claims`;
-- what `replica` alone has changed since it knows of by itself. The same writing
-- asked for once more, after its answer was lost, is found to be done.
CREATE FUNCTION sessionguard.claim(
    wanted text, expected bigint, content text, writing uuid,
    placed_on text, seen bigint, seen_claims bigint, room bigint, replica uuid,
    OUT outcome text, OUT written bigint
) LANGUAGE plpgsql AS $$
DECLARE
    standing sessionguard.hosts;
    found_lease sessionguard.leases;
    is_behind boolean := false;
    is_filled boolean := false;
BEGIN
    IF placed_on IS NOT NULL THEN
        SELECT * INTO standing FROM sessionguard.hosts AS h WHERE h.host = placed_on FOR UPDATE;
        IF NOT FOUND THEN
            INSERT INTO sessionguard.hosts (host) VALUES (placed_on) ON CONFLICT DO NOTHING;
            SELECT * INTO standing FROM sessionguard.hosts AS h WHERE h.host = placed_on FOR UPDATE;
        END IF;
        is_filled := standing.claims - seen_claims > room
            OR standing.server <> sessionguard.server();
        is_behind := standing.version > seen
            AND (standing.writer IS DISTINCT FROM replica OR standing.since > seen)
            AND (standing.ordered > seen OR is_filled);
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
                UPDATE sessionguard.hosts AS h
                SET version = greatest(
                        h.version + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                    ),
                    since = CASE WHEN h.writer = replica THEN h.since ELSE h.version END,
                    writer = replica,
                    claims = h.claims + CASE
                        WHEN h.server = sessionguard.server() THEN 1 ELSE 1::bigint << 40
                    END,
                    server = sessionguard.server(),
                    transaction = pg_current_xact_id()::text::bigint
                WHERE h.host = placed_on;
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

-- A replica of the release before does not say how much room there was: for it
-- there was none.
CREATE OR REPLACE FUNCTION sessionguard.claim(
    wanted text, expected bigint, content text, writing uuid,
    placed_on text, seen bigint, replica uuid,
    OUT outcome text, OUT written bigint
) LANGUAGE sql AS $$
    SELECT c.outcome, c.written FROM sessionguard.claim(
        wanted, expected, content, writing, placed_on, seen, -1, 0, replica
    ) AS c
$$;
