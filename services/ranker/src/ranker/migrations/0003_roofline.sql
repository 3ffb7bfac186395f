-- The least that each timed case of a version has to do, and the times that nobody can be under.
alter table problem add column roofs jsonb not null default '[]';
