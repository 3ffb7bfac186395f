-- What a search compares of a source or a problem. Each row is computed from one blob, whose digest
-- it has, so all read models share these tables, and any row may be deleted and computed again.
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

-- By the digest of its manifest: the words of a problem's title, statement and reference.
create table problem_text (
    digest text primary key,
    terms jsonb not null,
    operations text[] not null
);
