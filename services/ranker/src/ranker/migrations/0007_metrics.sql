-- What a timed run measured besides its times, as its problem declares, and which of these metrics
-- are out of the problem's bounds, '' if none is.
alter table run add column metrics json not null default '{}';
alter table run add column over_limit text not null default '';
