-- What a search compares of a source or a problem. Each row is computed from one blob, whose digest
-- it has, so all read models share these tables. They may be emptied together, and are filled again.
create table source_text (
    digest text primary key,
    terms jsonb not null,
    operations text[] not null,
    signature bigint[] not null,
    bands bigint[] not null,
    words tsvector not null
);

create index source_text_words on source_text using gin (words);
create index source_text_bands on source_text using gin (bands);

-- What each ranked submission is nearly a copy of, by their numbers; null if it is of nothing. It
-- follows from the log and its blobs. Rows are added in the order of the numbers, without gaps: every
-- source up to the largest number is read.
create table near_copy (
    number bigint primary key,
    parent bigint,
    similarity real
);

create index near_copy_of on near_copy (parent, number) where parent is not null;

-- By the digest of its manifest: the words of a problem's title, statement and reference.
create table problem_text (
    digest text primary key,
    terms jsonb not null,
    operations text[] not null
);
