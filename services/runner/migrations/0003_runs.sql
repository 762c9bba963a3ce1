-- Runs that were asked for and have not ended, and which owner of the partition took each up: with the end of that owner it is interrupted.
create table run (
  owner text not null,
  path text not null,
  -- Offset of the event that asks for it.
  request_offset bigint not null,
  partition smallint not null,
  epoch bigint not null,
  -- Its deadline.
  due_at timestamptz not null,
  primary key (owner, path, request_offset)
);
create index run_due on run (partition, due_at);
