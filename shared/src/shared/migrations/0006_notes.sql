-- What participants say of their submissions for themselves: their own words, so in no event. Both
-- null is a note that was taken back.
create table submission_note (
    submission text primary key,
    account text not null references participant (account) on delete cascade,
    note text,
    tag text,
    said_at timestamptz not null default now()
);

create index submission_note_account on submission_note (account);
