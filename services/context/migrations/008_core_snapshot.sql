-- The whole core state of a context at some of its past offsets, so that what it was at any offset is folded from few control events.
-- Written beside the log, by whoever folds past a mark; every row may be deleted at any time and is made again.
create table core_snapshot (
  context_id bigint not null,
  reducer_version integer not null,
  -- Offset folded through.
  as_of bigint not null,
  -- JSON of the whole state.
  state text not null,
  primary key (context_id, reducer_version, as_of)
);
