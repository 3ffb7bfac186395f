-- name: one_at_a_time
-- Webhooks of one account are counted and added by one at a time, until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('warpboard webhook ' || %(account)s, 0));

-- name: clear_webhooks
-- What never came into the log is forgotten an hour later.
delete from accounts.webhook
where account = %(account)s and seq is null and created_at < now() - interval '1 hour';

-- name: add_webhook
-- One more, if there are not too many; it is told nothing before it has a place in the log.
insert into accounts.webhook (webhook, account, url, secret, kinds, problems)
select %(id)s, %(account)s, %(url)s, %(secret)s, %(kinds)s::text [], %(problems)s::text []
where (select count(*) from accounts.webhook where account = %(account)s) < %(most)s
returning webhook;

-- name: keep_webhook
-- It is in the log.
update accounts.webhook set seq = %(seq)s where webhook = %(id)s;

-- name: forget_webhook
-- Its deliveries go with it.
delete from accounts.webhook where webhook = %(id)s;

-- name: webhooks
-- Those of a participant, oldest first.
select webhook, url, kinds, problems, created_at, off_at, notice
from accounts.webhook
where account = %(account)s and seq is not null
order by seq
limit 100;

-- name: test_webhook
-- Sent once, by who sends all else, and even where it is off.
insert into accounts.webhook_delivery (webhook, event, kind, problem, data, at)
values (%(id)s, %(event)s, 'test', '', '{}', now());

-- name: deliveries
-- What a webhook was told, newest first.
select
    delivery, event, kind, state, tries, created_at, tried_at,
    case when state = 'pending' then next_at end, took_ms, status, error
from accounts.webhook_delivery
where webhook = %(id)s and delivery < %(before)s
order by delivery desc
limit %(limit)s;
