-- name: begin_repeat
-- The first request under a key, or the first again since the other was lost or is long past.
insert into accounts.idempotency (actor, route, key, request_hash, begun_at)
values (%(actor)s, %(route)s, %(key)s, %(request_hash)s, %(at)s)
on conflict (actor, route, key) do update
set request_hash = excluded.request_hash, begun_at = excluded.begun_at, status = null, body = null
where idempotency.begun_at
    < case when idempotency.status is null then %(lost_before)s else %(kept_before)s end
returning key;

-- name: repeat
-- What the first request under a key was, and was answered.
select request_hash, status, body
from accounts.idempotency
where actor = %(actor)s and route = %(route)s and key = %(key)s
limit 1;

-- name: keep_repeat
-- The answer of the request that began then.
update accounts.idempotency
set status = %(status)s, body = %(body)s
where actor = %(actor)s and route = %(route)s and key = %(key)s
    and begun_at = %(at)s and status is null;

-- name: forget_repeat
-- The request that began then did nothing: its key is free.
delete from accounts.idempotency
where actor = %(actor)s and route = %(route)s and key = %(key)s
    and begun_at = %(at)s and status is null;

-- name: purge_repeats
-- Forget what is long past.
delete from accounts.idempotency where begun_at < %(kept_before)s;
