-- The log: contexts, commits, events and the folded core state.
--
-- `commit` is insert-only and is the fence: whoever inserts (context_id, n + 1) owns that commit. Every unique key starts with
-- context_id, so each statement about one context touches one hash partition. Text holds the JSON exactly as its writer sent it.

-- One row of settings that concern the whole database. The generation is raised after a restore from a backup.
create table shard (
  only_row boolean primary key default true check (only_row),
  generation integer not null default 1
);
insert into shard default values;

-- Last number given out in each partition; context_id = partition << 40 | number.
create table partition_counter (
  partition smallint primary key check (partition between 0 and 255),
  last_number bigint not null
);

-- A context's row is made just before its first commit; without a commit the context is not born.
create table context (
  context_id bigint primary key,
  owner text collate "C" not null,
  path text collate "C" not null,
  created_at timestamptz not null default now(),
  unique (owner, path)
);

-- Event types by number. Names are never removed.
create table event_type (
  type integer generated always as identity primary key,
  name text collate "C" not null unique
);

create table commit (
  context_id bigint not null,
  commit_no bigint not null,
  first_offset bigint not null,
  -- Below first_offset when the commit holds no event.
  last_offset bigint not null,
  -- The next commit starts above this offset.
  reserved_through bigint not null,
  -- Number of the newest commit, up to this one, that holds a control event.
  last_control bigint not null,
  -- Highest epoch of the partition's owner seen so far.
  runner_epoch bigint not null,
  generation integer not null,
  -- The process that wrote it.
  writer bigint not null,
  partition smallint not null,
  xid xid8 not null default pg_current_xact_id(),
  traceparent text,
  at timestamptz not null default now(),
  primary key (context_id, commit_no)
) partition by hash (context_id);

create table event (
  context_id bigint not null,
  "offset" bigint not null,
  type integer not null,
  format_version smallint not null,
  -- True for the types that the core state folds.
  is_control boolean not null,
  -- On the first event an append wrote.
  append_id uuid,
  idempotency_key text collate "C",
  -- SHA-256 over the canonical body; set with the key.
  body_digest bytea,
  created_at timestamptz not null default now(),
  -- JSON {origin, cause{chain, depth}, principal?, processor?, platform?}.
  source text not null,
  traceparent text,
  payload text,
  metadata text,
  primary key (context_id, "offset")
) partition by hash (context_id);

do $$
begin
  for remainder in 0..15 loop
    execute format('create table commit_%s partition of commit for values with (modulus 16, remainder %s)', remainder, remainder);
    execute format('create table event_%s partition of event for values with (modulus 16, remainder %s)', remainder, remainder);
  end loop;
end $$;

-- The change feed reads this; the one index that is not by context.
create index commit_feed on commit (partition, xid, context_id);

create unique index event_idempotency on event (context_id, idempotency_key) where idempotency_key is not null;
create unique index event_append on event (context_id, append_id) where append_id is not null;
create index event_control on event (context_id, "offset") where is_control;

-- Folded state by concern. A process reads and writes the rows of its own reducer version; as_of is the offset folded through.
create table core_state (
  context_id bigint not null,
  concern text collate "C" not null,
  reducer_version integer not null,
  as_of bigint not null,
  state text not null,
  primary key (context_id, concern, reducer_version)
);
