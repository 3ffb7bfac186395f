-- What each ranked submission is nearly a copy of, by their numbers; null if it is of nothing. It
-- follows from the log and its blobs. Rows are added in the order of the numbers, without gaps: every
-- source up to the largest number is read. Whoever empties the texts of sources empties this, too.
create table near_copy (
    number bigint primary key,
    parent bigint,
    similarity real
);

create index near_copy_of on near_copy (parent, number) where parent is not null;
