-- What the advisory screen found in each source, as [rule, line]; the name of the file decides in
-- which language it is read. It follows from the blob and the version of the screen: rows of another
-- version are computed again, and any row may be deleted.
create table source_labels (
    digest text,
    file_name text,
    version int not null,
    findings jsonb not null,
    rules text[] not null,
    primary key (digest, file_name)
);

create index source_labels_rules on source_labels using gin (rules);
