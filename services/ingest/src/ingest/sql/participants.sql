-- name: open_account
-- The account of a participant's name, a new one where there is none; no row if somebody else opens
-- it at this moment.
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
-- The account behind a participant's name, or behind one that they had.
select account from accounts.participant where name = %(name)s
union all
select account from accounts.former_name where name = %(name)s
limit 1;

-- name: name_of
-- The name of an account.
select name from accounts.participant where account = %(account)s limit 1;

-- name: names
-- What participants are called, in the order of their accounts.
select account, name from accounts.participant
where account > %(after)s order by account limit %(limit)s;

-- name: rename
-- Another name for an account, and for its password and who it is on the web page; the old one
-- stays its own. Nothing happens if the name is, or was, another's.
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
-- A name for an account whose name was lost; nothing happens if it has one, or the name is, or was,
-- another's.
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
-- Which database this is, whether its names are lost, and whether it has any.
select register, is_lost, exists (select from accounts.participant)
from accounts.register limit 1;

-- name: set_lost
-- Nobody gets a name from now on, or everybody may again.
update accounts.register set is_lost = %(is_lost)s;

-- name: identity_of
-- Whose an identity is.
select identity, provider, subject, account, linked_at
from accounts.identity
where provider = %(provider)s and subject = %(subject)s
limit 1;

-- name: add_identity
-- An identity is one participant's; who comes second gets none.
insert into accounts.identity (identity, provider, subject, account)
values (%(id)s, %(provider)s, %(subject)s, %(account)s)
on conflict do nothing
returning identity;

-- name: remove_identity
-- Where a participant was known is forgotten.
delete from accounts.identity where identity = %(identity)s;

-- name: identities
-- Where a participant is known, oldest first.
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
-- When tokens were used last; never back in time.
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
-- What is said of submissions as they come; a request that comes twice changes nothing.
insert into accounts.submission_note (submission, account, note, tag)
select said.submission, %(account)s, %(note)s, %(tag)s
from unnest(%(submissions)s::text []) as said (submission)
on conflict (submission) do nothing;

-- name: say_note
-- What is said of a submission from now on.
insert into accounts.submission_note (submission, account, note, tag)
values (%(submission)s, %(account)s, %(note)s, %(tag)s)
on conflict (submission) do update
set note = excluded.note, tag = excluded.tag, said_at = now();
