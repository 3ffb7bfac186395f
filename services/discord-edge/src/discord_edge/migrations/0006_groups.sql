-- The first submission of the same command, with which it shares a thread.
alter table post add column first bigint;
update post set first = number;
alter table post alter column first set not null;
create index post_first on post (first);
