-- Who works on which partition, how far each partition's feed is worked off, and where every subscription stands.
-- Hot rows keep room on their page and no index covers what changes with every batch, so their updates stay in place (HOT).

-- Runner pods that are alive; leases are shared out between them.
create table pod (
  id text primary key,
  expires_at timestamptz not null
) with (fillfactor = 50);

-- One row per partition, for ever. `epoch` counts owners: it is raised by each take-over and fences everything written below it.
create table partition_lease (
  partition smallint primary key check (partition between 0 and 255),
  pod text,
  epoch bigint not null default 0,
  expires_at timestamptz not null default '-infinity'
) with (fillfactor = 50);
insert into partition_lease (partition) select generate_series(0, 255);

-- Position in the partition's commit feed below which nothing is owed to anyone. Empty is the start of the feed.
create table watermark (
  partition smallint primary key check (partition between 0 and 255),
  position text not null default '',
  epoch bigint not null default 0
) with (fillfactor = 50);
insert into watermark (partition) select generate_series(0, 255);

-- One row per (context, subscription name).
create table delivery (
  id bigint generated always as identity primary key,
  partition smallint not null,
  owner text not null,
  path text not null,
  name text not null,
  -- Offset of the event that configured the row: a row configured anew is another row.
  configured_at bigint not null,
  -- What hosts the state, for example `facet:triage`; another host starts without the state of the former.
  host text not null,
  -- Everything at or below it is delivered.
  cursor bigint not null,
  -- True when the last batch told its processor that it is at the head.
  caught_up boolean not null default false,
  -- `removed` keeps the state for a row configured again.
  status text not null default 'active' check (status in ('active', 'retrying', 'halted', 'dangling', 'removed')),
  -- Offset of the last resume that was honoured.
  resumed_at bigint not null default 0,
  -- Failures since the last success, and how many of them were charged to one event alone.
  attempt int not null default 0,
  charged int not null default 0,
  -- While a failing event is searched: most events of a batch, and the last offset that may be the one.
  width int,
  narrow_through bigint,
  -- Was in flight when its process was killed: tried alone until it succeeds.
  suspect boolean not null default false,
  -- Set by a failure or a wait alone; an attempt in flight is covered by the lease.
  due_at timestamptz,
  -- The watermark has passed commits up to this offset although they are not delivered.
  behind_through bigint,
  error_code text,
  error_message text,
  epoch bigint not null,
  version bigint not null default 1,
  unique (owner, path, name)
) with (fillfactor = 50);
create index delivery_due on delivery (partition, due_at) where due_at is not null;
create index delivery_behind on delivery (partition) where behind_through is not null;

-- State of the processor a subscription feeds, folded through the subscription's cursor.
create table checkpoint (
  delivery_id bigint primary key,
  version text not null,
  state text not null
) with (fillfactor = 50);

-- Events owed to a log: committed with the checkpoint that made them, sent in order, deleted once answered.
create table outbox (
  id uuid primary key,
  delivery_id bigint not null,
  partition smallint not null,
  -- Order: the delivery row's version at the commit, then the place in it.
  batch bigint not null,
  ordinal int not null,
  -- `emit` comes from a processor; `fact` and `halt` are records of the platform about the delivery.
  kind text not null check (kind in ('emit', 'fact', 'halt')),
  -- Encoded iterate.type.v1.EventInput.
  event bytea not null,
  -- What wrote it, for example `config@<digest>`.
  code text not null,
  chain text not null,
  depth int not null,
  principal text,
  traceparent text not null
);
create index outbox_order on outbox (delivery_id, batch, ordinal);
create index outbox_partition on outbox (partition);

-- Emitted events that were refused for good.
create table dead_letter (
  id uuid primary key,
  delivery_id bigint not null,
  owner text not null,
  path text not null,
  name text not null,
  event bytea not null,
  error_code text not null,
  error_message text not null,
  at timestamptz not null default now()
);
create index dead_letter_context on dead_letter (owner, path, name);
