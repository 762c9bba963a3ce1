-- Whether the parent of a context was told of its birth. Those that are there already count as told; whoever makes a row from now on, of
-- this release or of the one before, makes one that is not.
alter table context add column is_told boolean not null default true;
alter table context alter column is_told set default false;
