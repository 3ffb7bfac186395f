-- name: add_cli_login
-- A CLI id was given out; it waits for somebody to link it.
insert into accounts.cli_login (cli_hash, provider, network, requested_at, expires_at)
values (%(cli)s, %(provider)s, %(network)s, %(requested_at)s, %(expires_at)s);

-- name: cli_login_of
-- What is known of a CLI id.
select provider, network, requested_at, expires_at, account
from accounts.cli_login where cli_hash = %(cli)s limit 1;

-- name: claim_cli_login
-- A CLI id becomes somebody's, unless it is somebody else's or too old.
update accounts.cli_login set account = %(account)s
where cli_hash = %(cli)s
    and (account = %(account)s or (account is null and expires_at > %(at)s));

-- name: add_device_login
-- A device asks to act for somebody; nothing happens if its user code is in use.
insert into accounts.device_login
    (device_hash, user_code, client, scopes, network, requested_at, expires_at)
values
    (%(device)s, %(code)s, %(client)s, %(scopes)s, %(network)s, %(requested_at)s, %(expires_at)s)
on conflict do nothing;

-- name: device_login_by_code
-- The device that shows a user code.
select client, scopes, network, requested_at, expires_at, account, is_denied, token
from accounts.device_login where user_code = %(code)s limit 1;

-- name: device_login_by_hash
-- The device that holds a device code.
select client, scopes, network, requested_at, expires_at, account, is_denied, token
from accounts.device_login where device_hash = %(device)s limit 1;

-- name: answer_device_login
-- Somebody lets a device in, or turns it away; the first answer counts.
update accounts.device_login set account = %(account)s, is_denied = %(is_denied)s
where user_code = %(code)s and account is null and not is_denied and expires_at > %(at)s;

-- name: poll_device_login
-- A device asks for its answer; it may not have asked a moment ago.
update accounts.device_login set polled_at = %(at)s
where device_hash = %(device)s and (polled_at is null or polled_at <= %(since)s);

-- name: finish_device_login
-- A device was given its token.
update accounts.device_login set token = %(token)s where device_hash = %(device)s;

-- name: add_login_state
-- A browser leaves for another provider, or shows a question to somebody known.
insert into accounts.login_state
    (state_hash, purpose, provider, bound_to, verifier, account, next_path, expires_at)
values
    (%(state)s, %(purpose)s, %(provider)s, %(bound_to)s, %(verifier)s, %(account)s, %(next_path)s,
    %(expires_at)s);

-- name: take_login_state
-- It comes back, once.
delete from accounts.login_state where state_hash = %(state)s
returning purpose, provider, bound_to, verifier, account, next_path, expires_at;

-- name: open_with_password
-- A new name gets an account, an identity and a password at once; nothing happens if it is taken.
with opened as (
    insert into accounts.participant (account, name)
    select %(account)s, %(name)s
    where
        not exists (select 1 from accounts.former_name where name = %(name)s)
        and not exists (select 1 from accounts.register where is_lost)
    on conflict (name) do nothing returning account
),

kept as (
    insert into accounts.password (name, account, hash, changed_at)
    select %(name)s, opened.account, %(hash)s, %(at)s from opened
)

insert into accounts.identity (identity, provider, subject, account)
select %(id)s, %(provider)s, %(subject)s, opened.account from opened;

-- name: open_with_identity
-- Somebody known elsewhere gets a name and an account at once; nothing happens if it is taken.
with opened as (
    insert into accounts.participant (account, name)
    select %(account)s, %(name)s
    where
        not exists (select 1 from accounts.former_name where name = %(name)s)
        and not exists (select 1 from accounts.register where is_lost)
    on conflict (name) do nothing returning account
)

insert into accounts.identity (identity, provider, subject, account)
select %(id)s, %(provider)s, %(subject)s, opened.account from opened;

-- name: is_lost
-- Whether the names are lost.
select 1 from accounts.register where is_lost limit 1;

-- name: password_of
-- The account and the password's hash of a name.
select account, hash from accounts.password where name = %(name)s limit 1;

-- name: any_password
-- Whether anybody has a password.
select 1 from accounts.password limit 1;

-- name: set_password
-- A password's hash is renewed.
update accounts.password set hash = %(hash)s, changed_at = %(at)s where name = %(name)s;

-- name: purge_cli_logins
-- Forget CLI ids long past; one that was linked, when its token has expired too.
delete from accounts.cli_login
where expires_at < case when account is null then %(before)s else %(linked_before)s end;

-- name: purge_device_logins
-- Forget devices long past.
delete from accounts.device_login where expires_at < %(before)s;

-- name: purge_login_states
-- Forget browsers that never came back.
delete from accounts.login_state where expires_at < %(before)s;
