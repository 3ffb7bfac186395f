-- name: names
-- Every name that a participant has or had, and their names and ids on other systems.
select name from participant
union select name from former_name
union select subject from identity;
