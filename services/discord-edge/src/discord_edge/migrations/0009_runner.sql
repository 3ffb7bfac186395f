-- The launcher that was requested, '' for any agent.
alter table wanted add column runner text not null default '';
alter table post add column runner text not null default '';
