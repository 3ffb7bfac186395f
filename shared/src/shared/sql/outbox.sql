-- name: begin
-- An effect is tried; whether it is still to be done.
insert into outbox (event, target)
values (%(event)s, %(target)s)
on conflict (event, target) do update set tries = outbox.tries + 1
returning done_at is null;

-- name: mark
-- An effect is done.
update outbox set done_at = now()
where event = %(event)s and target = %(target)s and done_at is null;

-- name: pending
-- How many effects were tried and are not done.
select count(*) from outbox where done_at is null;
