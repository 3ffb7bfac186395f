-- The phases of each contest that began and were announced.
create table contest (
    slug text primary key,
    phases text[] not null
);
