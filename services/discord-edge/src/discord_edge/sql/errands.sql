-- name: begin
-- Add a repository to publish; a repeat changes nothing.
insert into errand (key, person, name, roles, channel, said, before)
values (%(key)s, %(person)s, %(name)s, %(roles)s, %(channel)s, %(said)s, %(before)s)
on conflict (key) do nothing;

-- name: end
-- Remove an update whose result was reported.
delete from errand where key = %(key)s;

-- name: open
-- The updates whose results were not reported, oldest first; after two hours the repository may
-- have changed since it was confirmed.
select
    key, person, name, roles, channel, said, before,
    began_at < now() - interval '2 hours' as is_late
from errand order by began_at limit 100;
