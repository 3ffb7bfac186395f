-- The least upper end of the intervals of the entries that share a rank: who begins above it can be
-- told from one of them, and does not join.
alter table tie_group add column reach_us double precision not null;
