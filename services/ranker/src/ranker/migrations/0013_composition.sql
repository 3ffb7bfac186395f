-- What produced the answer of a run, null if it was not recorded.
alter table run add column composition json;
