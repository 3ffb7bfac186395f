-- Who reads the sources that are sent to a version, and when they are published; the digest of the
-- text that is to be accepted, '' for none; what its check found, or why there is no report.
alter table problem
    add column source_visible text not null default 'after_close',
    add column publish text not null default 'after_close',
    add column consent text not null default '',
    add column report text not null default '',
    add column unchecked text not null default '';

-- The GPU types that take submissions in, null for those of the newest version; and all that ever
-- were said to.
alter table leaderboard
    add column gpus text[],
    add column gpus_said text[] not null default '{}';

-- Who accepts which text of a problem; taking it back takes all of the problem's back.
create table consent (
    account text not null,
    problem text not null,
    digest text not null,
    primary key (account, problem, digest)
);
