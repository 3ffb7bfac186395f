-- The number of the submission that a submission is declared to come from, 0 for none.
alter table submission add column parent bigint not null default 0;

create index submission_of_parent on submission (parent, number) where parent > 0;
