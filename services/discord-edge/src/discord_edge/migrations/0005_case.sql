-- The only case that is to be profiled, from 1 on; 0 is every one.
alter table wanted add column only_case int not null default 0;
