-- Who was ahead when a podium was told last. Whose a submission is, ingest is asked.
alter table podium add column before text[];

drop table expected;
