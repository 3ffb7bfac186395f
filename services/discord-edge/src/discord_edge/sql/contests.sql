-- name: phases
-- The phases of a contest that were announced.
select phases from contest where slug = %(slug)s;

-- name: set_phases
-- Set the phases of a contest that were announced.
insert into contest (slug, phases) values (%(slug)s, %(phases)s)
on conflict (slug) do update set phases = excluded.phases;
