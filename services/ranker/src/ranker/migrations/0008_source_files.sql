-- How many files a submission to a version may have, with its entry file.
alter table problem add column source_files_max int not null default 1;
