-- name: place
-- The position of the watcher; the first time, the end of the log: earlier events are never sent.
with first as (
    insert into accounts.webhook_place (name, seq, looked_at)
    values (%(name)s, %(seq)s, %(at)s)
    on conflict (name) do nothing
    returning seq, looked_at
)

select seq, looked_at from first
union all
select seq, looked_at from accounts.webhook_place where name = %(name)s
limit 1;

-- name: move
-- Move the position from where the caller believes it is, or not at all.
update accounts.webhook_place set seq = %(last)s, looked_at = %(at)s
where name = %(name)s and seq = %(after)s
returning seq;

-- name: tell
-- Insert a delivery once; skip webhooks that are off or removed.
insert into accounts.webhook_delivery (webhook, event, kind, problem, data, at)
select said.webhook, said.event, said.kind, said.problem, said.data, said.at
from
    unnest(
        %(webhooks)s::text [], %(events)s::text [], %(kinds)s::text [],
        %(problems)s::text [], %(datas)s::text [], %(ats)s::timestamptz []
    ) as said (webhook, event, kind, problem, data, at)
inner join accounts.webhook on webhook.webhook = said.webhook
where webhook.off_at is null
on conflict (webhook, event) do nothing;

-- name: submissions
-- Submissions as they are now, and whether they count.
select
    submission.id, submission.number, submission.account, submission.problem,
    submission.problem_number, submission.gpu, submission.mode, submission.outcome,
    submission.verdict, submission.code, submission.is_eligible,
    result.score_us, coalesce(result.counts, false) as counts
from submission
left join scored as result
    on
        result.submission = submission.id
        and result.problem_number = submission.problem_number
where submission.id = any(%(ids)s)
limit 10000;

-- name: rejudge
-- A rejudge under another version as it is now.
select id, problem, from_number, to_number, count, changed_count
from rejudge
where id = %(id)s and from_number <> to_number
limit 1;

-- name: passed
-- The entries of these accounts that a submission overtook by more than a tie, and that no earlier
-- submission of its participant was ahead of.
select entry.account, entry.number, entry.score_us
from result
inner join entry
    on
        entry.problem = result.problem
        and entry.gpu = result.gpu
        and entry.problem_number = result.problem_number
        and entry.account <> result.account
inner join result as theirs
    on
        theirs.submission = entry.submission
        and theirs.problem_number = entry.problem_number
where
    result.submission = %(submission)s
    and result.problem_number = %(problem_number)s
    and result.pooled_us is not null
    and entry.account = any(%(accounts)s)
    and entry.score_us > result.pooled_us * (1 + coalesce(result.pooled_delta, 0))
    and theirs.seq < result.seq
    and not exists (
        select 1 from result as older
        where
            older.account = result.account
            and older.problem = result.problem
            and older.gpu = result.gpu
            and older.problem_number = result.problem_number
            and older.submission <> result.submission
            and older.seq < result.seq
            and older.pooled_us * (1 + coalesce(older.pooled_delta, 0)) < entry.score_us
    )
    and not exists (
        select 1 from ban
        where
            ban.account = result.account
            and (ban.until_at is null or ban.until_at > %(at)s)
    )
order by entry.score_us, entry.number
limit 10000;

-- name: claim
-- Claim due deliveries, one per webhook and few per account: a try without a recorded outcome is
-- tried again when its lease is over.
with due as (
    select distinct on (waiting.webhook)
        waiting.delivery, waiting.next_at, webhook.account
    from accounts.webhook_delivery as waiting
    inner join accounts.webhook on webhook.webhook = waiting.webhook
    where
        waiting.state = 'pending'
        and waiting.next_at <= now()
        and waiting.webhook <> all(%(busy)s::text [])
        and webhook.account <> all(%(full)s::text [])
        and webhook.seq <= %(seq)s
    order by waiting.webhook, waiting.next_at, waiting.delivery
),

ranked as (
    select
        due.delivery, due.next_at,
        row_number() over (partition by due.account order by due.next_at) as place
    from due
),

chosen as (
    select ranked.delivery from ranked
    where ranked.place <= %(of_account)s
    order by ranked.next_at
    limit %(limit)s
)

update accounts.webhook_delivery as begun
set
    tries = begun.tries + 1,
    tried_at = now(),
    next_at = now() + make_interval(secs => %(lease_s)s)
from accounts.webhook
where
    begun.delivery in (select chosen.delivery from chosen)
    and begun.state = 'pending'
    and begun.next_at <= now()
    and webhook.webhook = begun.webhook
returning
    begun.delivery, begun.webhook, webhook.account, webhook.url, webhook.secret,
    begun.event, begun.kind, begun.problem, begun.data, begun.at, begun.tries,
    webhook.off_at is not null as is_off;

-- name: ended
-- Record the outcome of a delivery; only the current try may.
update accounts.webhook_delivery
set
    state = %(state)s, status = %(status)s, error = %(error)s, took_ms = %(took_ms)s
where delivery = %(delivery)s and state = 'pending' and tries = %(tries)s
returning delivery;

-- name: later
-- Schedule another try after a failure.
update accounts.webhook_delivery
set
    status = %(status)s, error = %(error)s, took_ms = %(took_ms)s,
    next_at = now() + make_interval(secs => %(wait_s)s)
where delivery = %(delivery)s and state = 'pending' and tries = %(tries)s;

-- name: switch_off
-- Switch off a webhook that failed for too long.
update accounts.webhook set off_at = now(), notice = %(notice)s
where webhook = %(webhook)s and off_at is null;

-- name: drop_all
-- Drop the pending deliveries of a webhook that was switched off, except tests.
update accounts.webhook_delivery set state = 'dropped', error = 'the webhook was switched off'
where webhook = %(webhook)s and state = 'pending' and kind <> 'test';

-- name: switch_on
-- Switch on a webhook after a successful test.
update accounts.webhook set off_at = null, notice = null
where webhook = %(webhook)s and off_at is not null;

-- name: forget_old
-- Limit a webhook's history in time and length.
delete from accounts.webhook_delivery
where
    created_at < now() - make_interval(days => %(days)s)
    or delivery in (
        select ordered.delivery
        from (
            select
                delivery,
                row_number() over (partition by webhook order by delivery desc) as place
            from accounts.webhook_delivery
        ) as ordered
        where ordered.place > %(most)s
    );

-- name: pending
-- The number of pending deliveries.
select count(*) as pending from accounts.webhook_delivery where state = 'pending';
