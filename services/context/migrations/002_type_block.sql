-- Where in a context's log a type occurs, by blocks of 1,024 offsets: what a read by type looks at instead of the log. Written by
-- readers, for blocks that are complete and so never change; an append pays nothing for it.
create table type_block (
  context_id bigint not null,
  type integer not null,
  -- offset / 1024.
  block bigint not null,
  primary key (context_id, type, block)
);

-- Blocks below `through_block` are all entered.
create table type_block_mark (
  context_id bigint primary key,
  through_block bigint not null
) with (fillfactor = 50);
