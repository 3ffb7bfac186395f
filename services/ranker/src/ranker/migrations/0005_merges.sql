-- Accounts that became part of another one. `undone_seq` is the event that separated them again.
create table account_merge (
    seq bigint primary key,
    account text not null,
    into_account text not null,
    undone_seq bigint
);

create unique index account_merge_now on account_merge (account) where undone_seq is null;

-- `account` is whose it is now; `sender` is the account that sent it if that is part of another
-- one, '' if it is not.
alter table submission add column sender text not null default '';
alter table evaluation add column sender text not null default '';
alter table record add column sender text not null default '';

create index submission_of_sender on submission (sender) where sender <> '';
create index record_of_account on record (account);

-- The account that the one which reached it is part of now, '' for none.
alter table milestone add column into_account text not null default '';
