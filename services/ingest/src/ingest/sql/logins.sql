-- name: add_cli_login
-- Store a new CLI id, which waits to be linked.
insert into accounts.cli_login (cli_hash, provider, network, requested_at, expires_at)
values (%(cli)s, %(provider)s, %(network)s, %(requested_at)s, %(expires_at)s);

-- name: cli_login_of
-- A CLI id.
select provider, network, requested_at, expires_at, account
from accounts.cli_login where cli_hash = %(cli)s limit 1;

-- name: claim_cli_login
-- Assign a CLI id to an account, unless it has another owner or expired.
update accounts.cli_login set account = %(account)s
where cli_hash = %(cli)s
    and (account = %(account)s or (account is null and expires_at > %(at)s));

-- name: add_device_login
-- Store a device login; nothing happens if its user code is in use.
insert into accounts.device_login
    (device_hash, user_code, client, scopes, network, requested_at, expires_at)
values
    (%(device)s, %(code)s, %(client)s, %(scopes)s, %(network)s, %(requested_at)s, %(expires_at)s)
on conflict do nothing;

-- name: device_login_by_code
-- The device with a user code.
select client, scopes, network, requested_at, expires_at, account, is_denied, token
from accounts.device_login where user_code = %(code)s limit 1;

-- name: device_login_by_hash
-- The device with a device code.
select client, scopes, network, requested_at, expires_at, account, is_denied, token
from accounts.device_login where device_hash = %(device)s limit 1;

-- name: answer_device_login
-- Approve or deny a device; the first answer counts.
update accounts.device_login set account = %(account)s, is_denied = %(is_denied)s
where user_code = %(code)s and account is null and not is_denied and expires_at > %(at)s;

-- name: poll_device_login
-- Store the time of a poll, unless the device polls too often.
update accounts.device_login set polled_at = %(at)s
where device_hash = %(device)s and (polled_at is null or polled_at <= %(since)s);

-- name: finish_device_login
-- Store the token of a device.
update accounts.device_login set token = %(token)s where device_hash = %(device)s;

-- name: add_login_state
-- Store a login with another provider, or a confirmation page, in progress.
insert into accounts.login_state
    (state_hash, purpose, provider, bound_to, verifier, account, next_path, expires_at)
values
    (%(state)s, %(purpose)s, %(provider)s, %(bound_to)s, %(verifier)s, %(account)s, %(next_path)s,
    %(expires_at)s);

-- name: take_login_state
-- Return and delete it.
delete from accounts.login_state where state_hash = %(state)s
returning purpose, provider, bound_to, verifier, account, next_path, expires_at;

-- name: open_with_password
-- Create name, account, identity and password together; nothing happens if the name is taken.
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
-- Create name, account and identity together; nothing happens if one of them is taken.
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
-- The account and the password hash of a name.
select account, hash from accounts.password where name = %(name)s limit 1;

-- name: password_name_of
-- The name with which an account logs in by password.
select name from accounts.password where account = %(account)s limit 1;

-- name: add_password
-- Give an account its first password, under its name; nothing happens if it has one.
insert into accounts.password (name, account, hash, changed_at)
select participant.name, participant.account, %(hash)s, %(at)s
from accounts.participant where participant.account = %(account)s
on conflict do nothing;

-- name: account_of_password_reset
-- The account of a password reset that is neither used nor expired.
select account from accounts.login_state
where state_hash = %(state)s and purpose = %(purpose)s and expires_at > %(at)s limit 1;

-- name: reset_password
-- Use a password reset: replace the password of its account, and drop all resets of the account.
-- Nothing happens if the reset is used or expired.
with used as (
    delete from accounts.login_state
    where state_hash = %(state)s and purpose = %(purpose)s and expires_at > %(at)s
    returning account
),

dropped as (
    delete from accounts.login_state using used
    where
        login_state.account = used.account and login_state.purpose = %(purpose)s
        and login_state.state_hash <> %(state)s
)

update accounts.password set hash = %(hash)s, changed_at = %(at)s
from used where password.account = used.account;

-- name: any_password
-- Whether there is any password.
select 1 from accounts.password limit 1;

-- name: set_password
-- Replace a password hash.
update accounts.password set hash = %(hash)s, changed_at = %(at)s where name = %(name)s;

-- name: purge_cli_logins
-- Delete expired CLI ids; linked ones once their token has expired, too.
delete from accounts.cli_login
where expires_at < case when account is null then %(before)s else %(linked_before)s end;

-- name: purge_device_logins
-- Delete expired devices.
delete from accounts.device_login where expires_at < %(before)s;

-- name: purge_login_states
-- Delete logins that were never finished.
delete from accounts.login_state where expires_at < %(before)s;
