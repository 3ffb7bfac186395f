-- name: begin_request
-- The first request under a key, or a new first one if the other was lost or has expired.
insert into accounts.idempotency (actor, route, key, request_hash, begun_at)
values (%(actor)s, %(route)s, %(key)s, %(request_hash)s, %(at)s)
on conflict (actor, route, key) do update
set request_hash = excluded.request_hash, begun_at = excluded.begun_at, status = null, body = null
where idempotency.begun_at
    < case when idempotency.status is null then %(lost_before)s else %(kept_before)s end
returning key;

-- name: find_request
-- The first request under a key and its response.
select request_hash, status, body
from accounts.idempotency
where actor = %(actor)s and route = %(route)s and key = %(key)s
limit 1;

-- name: store_response
-- Store the response of the request that began at this time.
update accounts.idempotency
set status = %(status)s, body = %(body)s
where actor = %(actor)s and route = %(route)s and key = %(key)s
    and begun_at = %(at)s and status is null;

-- name: forget_request
-- Free the key of the request that began at this time and changed nothing.
delete from accounts.idempotency
where actor = %(actor)s and route = %(route)s and key = %(key)s
    and begun_at = %(at)s and status is null;

-- name: purge_requests
-- Delete expired requests.
delete from accounts.idempotency where begun_at < %(kept_before)s;
