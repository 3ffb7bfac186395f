-- The GPU types on which the check of a version ran its code and a correct solution.
alter table problem add column tested_gpus text[] not null default '{}';
