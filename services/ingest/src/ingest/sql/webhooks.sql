-- name: one_at_a_time
-- Only one transaction at a time counts and adds webhooks of an account.
select pg_advisory_xact_lock(hashtextextended('warpboard webhook ' || %(account)s, 0));

-- name: clear_webhooks
-- Delete webhooks that did not reach the log within an hour.
delete from accounts.webhook
where account = %(account)s and seq is null and created_at < now() - interval '1 hour';

-- name: add_webhook
-- Add a webhook below the limit; it gets no events before it is in the log.
insert into accounts.webhook (webhook, account, url, secret, kinds, problems)
select %(id)s, %(account)s, %(url)s, %(secret)s, %(kinds)s::text [], %(problems)s::text []
where (select count(*) from accounts.webhook where account = %(account)s) < %(most)s
returning webhook;

-- name: keep_webhook
-- Store its sequence in the log.
update accounts.webhook set seq = %(seq)s where webhook = %(id)s;

-- name: forget_webhook
-- Delete a webhook with its deliveries.
delete from accounts.webhook where webhook = %(id)s;

-- name: webhooks
-- The webhooks of a participant, oldest first; the columns are the fields of `Webhook`.
select
    webhook, url, kinds, problems,
    case when off_at is null then 'on' else 'off' end,
    notice, off_at, created_at
from accounts.webhook
where account = %(account)s and seq is not null
order by seq
limit 100;

-- name: test_webhook
-- Queue a test event, even if the webhook is off; ranker sends it.
insert into accounts.webhook_delivery (webhook, event, kind, problem, data, at)
values (%(id)s, %(event)s, 'test', '', '{}', now());

-- name: deliveries
-- The deliveries of a webhook, newest first; the columns are the fields of `Delivery`.
select
    delivery, event, kind, state, tries, status, error, took_ms, created_at, tried_at,
    case when state = 'pending' then next_at end
from accounts.webhook_delivery
where webhook = %(id)s and delivery < %(before)s
order by delivery desc
limit %(limit)s;
