-- Giving up the oldest events of a log.
--
-- What is left of a truncated event: a control event stays whole, for ever, because core states are folded from it. A row with a key or
-- an append id loses its bodies and stays for 30 days with format_version 0, so that what was sent before is still recognised. Every
-- other row goes.

-- Contexts that have said how much of their log they keep, and how far that is carried out.
create table retention (
  context_id bigint primary key,
  -- Offset of the first event that can be read: raised before anything below it is touched.
  first_offset bigint not null default 1,
  -- Below it only control events and what is left of keys remain.
  emptied_below bigint not null default 1,
  -- Below it only control events remain.
  purged_below bigint not null default 1,
  -- The newest change of the core state that was looked at.
  noticed bigint not null default 0,
  due_at timestamptz not null default now(),
  claimed_until timestamptz not null default '-infinity'
) with (fillfactor = 50);
create index retention_due on retention (due_at);

-- When each first_offset was set: what is left of keys and commits below it goes 30 days later.
create table truncation (
  context_id bigint not null,
  first_offset bigint not null,
  at timestamptz not null default now(),
  primary key (context_id, first_offset)
);

-- How far a subscription is known to have got. A row of the subscription table that was configured anew, or resumed, starts over.
create table subscription_floor (
  context_id bigint not null,
  name text collate "C" not null,
  configured_at bigint not null,
  resumed_at bigint not null,
  floor_offset bigint not null,
  primary key (context_id, name)
) with (fillfactor = 50);

-- Finds the contexts that have said how much they keep.
create index core_state_retention on core_state (context_id) where concern = 'retention';
