-- Values that a context keeps by key, beside its log.

create table kv (
  context_id bigint not null,
  key text collate "C" not null,
  -- JSON exactly as it is answered.
  value text not null,
  -- Never given twice in a context.
  version bigint not null,
  -- Of key and value, as they count against what a context may hold.
  bytes integer not null,
  primary key (context_id, key)
);

-- What a context holds in all. Its row is locked by whoever changes anything of it.
create table kv_total (
  context_id bigint primary key,
  keys integer not null default 0,
  bytes bigint not null default 0,
  last_version bigint not null default 0
) with (fillfactor = 50);
