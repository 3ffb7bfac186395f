-- name: open_account
-- The account of a name, opened if the name is new; no row if another request opens it at the same
-- moment.
with opened as (
    insert into accounts.participant (account, name)
    select %(account)s, %(name)s
    where
        not exists (select 1 from accounts.former_name where name = %(name)s)
        and not exists (select 1 from accounts.register where is_lost)
    on conflict (name) do nothing
    returning account
)

select account from opened
union all
select account from accounts.participant
where name = %(name)s
union all
select account from accounts.former_name
where name = %(name)s
limit 1;

-- name: account_of
-- The account of a current or former name.
select account from accounts.participant where name = %(name)s
union all
select account from accounts.former_name where name = %(name)s
limit 1;

-- name: name_of
-- The name of an account.
select name from accounts.participant where account = %(account)s limit 1;

-- name: names_of
-- The names of accounts.
select account, name from accounts.participant where account = any(%(accounts)s);

-- name: names
-- A page of names, ordered by account.
select account, name from accounts.participant
where account > %(after)s order by account limit %(limit)s;

-- name: rename
-- Rename an account with its password and web identity; it keeps the old name, too. Nothing happens
-- if the name belongs or belonged to another account.
with named as (
    update accounts.participant as own set name = %(name)s
    from accounts.participant as old
    where
        own.account = %(account)s and old.account = own.account
        and not exists (
            select 1 from accounts.participant as other
            where other.name = %(name)s and other.account <> %(account)s
        )
        and not exists (
            select 1 from accounts.former_name as former
            where former.name = %(name)s and former.account <> %(account)s
        )
    returning own.account, old.name as former
),

freed as (
    delete from accounts.former_name using named where former_name.name = %(name)s
),

kept as (
    insert into accounts.former_name (name, account)
    select former, account from named where former <> %(name)s
),

secret as (
    update accounts.password set name = %(name)s
    from named where password.account = named.account
),

web as (
    update accounts.identity set subject = %(name)s
    from named
    where
        identity.account = named.account and identity.provider = 'web'
        and identity.subject = named.former
)

select account from named;

-- name: give_name
-- Give a name to an account whose name was lost; nothing happens if it has one, or if the name
-- belongs or belonged to another account.
insert into accounts.participant (account, name)
select %(account)s, %(name)s
where
    not exists (select 1 from accounts.participant where account = %(account)s)
    and not exists (
        select 1 from accounts.former_name
        where name = %(name)s and account <> %(account)s
    )
on conflict (name) do nothing
returning account;

-- name: register_row
-- The register of this database, whether its names are lost, and whether it has participants.
select register, is_lost, exists (select from accounts.participant)
from accounts.register limit 1;

-- name: set_lost
-- Refuse new names, or allow them again.
update accounts.register set is_lost = %(is_lost)s;

-- name: identity_of
-- The identity with this provider and subject.
select identity, provider, subject, account, linked_at
from accounts.identity
where provider = %(provider)s and subject = %(subject)s
limit 1;

-- name: add_identity
-- Store an identity; it belongs to the first participant.
insert into accounts.identity (identity, provider, subject, account)
values (%(id)s, %(provider)s, %(subject)s, %(account)s)
on conflict do nothing
returning identity;

-- name: remove_identity
-- Delete an identity.
delete from accounts.identity where identity = %(identity)s;

-- name: identities
-- The identities of a participant, oldest first.
select identity, provider, subject, account, linked_at
from accounts.identity
where account = %(account)s
order by linked_at, identity
limit 100;

-- name: add_token
-- The name of a token, before the token is in the log.
insert into accounts.token (token, account, name, prefix)
values (%(token)s, %(account)s, %(name)s, %(prefix)s)
on conflict (token) do nothing;

-- name: tokens
-- The names of a participant's tokens, newest first.
select token, account, name, prefix, last_used_at
from accounts.token
where account = %(account)s
order by created_at desc
limit 1000;

-- name: used
-- When tokens were last used; an earlier time changes nothing.
update accounts.token
set last_used_at = said.at
from unnest(%(tokens)s::text [], %(ats)s::timestamptz []) as said (token, at)
where token.token = said.token
    and (token.last_used_at is null or token.last_used_at < said.at);

-- name: add_invites
-- The codes of invites, before those are in the log.
insert into accounts.invite (invite, code)
select said.invite, said.code
from unnest(%(invites)s::text [], %(codes)s::text []) as said (invite, code);

-- name: codes
-- The codes of these invites.
select invite, code from accounts.invite where invite = any(%(invites)s) limit 10000;

-- name: begin_notes
-- The first notes on submissions; a repeat changes nothing.
insert into accounts.submission_note (submission, account, note, tag)
select said.submission, %(account)s, %(note)s, %(tag)s
from unnest(%(submissions)s::text []) as said (submission)
on conflict (submission) do nothing;

-- name: set_note
-- Replace the note on a submission.
insert into accounts.submission_note (submission, account, note, tag)
values (%(submission)s, %(account)s, %(note)s, %(tag)s)
on conflict (submission) do update
set note = excluded.note, tag = excluded.tag, said_at = now();
