-- name: begin
-- A repository that is to be published; a repeat changes nothing.
insert into errand (key, person, name, roles, channel, said, before)
values (%(key)s, %(person)s, %(name)s, %(roles)s, %(channel)s, %(said)s, %(before)s)
on conflict (key) do nothing;

-- name: end
-- How it ended was told.
delete from errand where key = %(key)s;

-- name: open
-- Those whose end nobody was told, oldest first; who agreed hours ago knew another repository.
select
    key, person, name, roles, channel, said, before,
    began_at < now() - interval '2 hours' as is_late
from errand order by began_at limit 100;
