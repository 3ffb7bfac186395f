-- The only case that was asked for, from 1 on, so that it is asked for again; 0 is every one.
alter table post add column only_case int not null default 0;
