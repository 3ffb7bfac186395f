-- name: open_account
-- A new participant gets an account; a known one keeps theirs.
insert into accounts.participant (account, name)
values (%(account)s, %(name)s)
on conflict (name) do nothing;

-- name: account_of
-- The account behind a participant's name.
select account from accounts.participant where name = %(name)s limit 1;
