-- name: names
-- Every name that a participant has or had, and their names and ids on other systems.
select name from accounts.participant
union select name from accounts.former_name
union select subject from accounts.identity;
