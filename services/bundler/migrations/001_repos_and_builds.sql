-- Repositories, blobs and builds. Postgres is the truth; the bare repositories on a pod's disk are caches of these tables.

-- Content by its SHA-256, in pieces. A blob counts only once its pieces were read back and agreed.
create table blob (
  digest bytea primary key check (length(digest) = 32),
  size bigint not null,
  is_complete boolean not null default false,
  -- A blob that nothing names is kept for a while after this: its writer may be about to name it.
  touched_at timestamptz not null default now()
);

create table blob_chunk (
  digest bytea not null,
  chunk integer not null,
  data bytea not null,
  primary key (digest, chunk)
);
-- Packs and bundles do not shrink: packs are compressed already, and reads want a piece without unpacking it.
alter table blob_chunk alter column data set storage external;

create table repo (
  repo_id bigint generated always as identity primary key,
  owner text collate "C" not null,
  path text collate "C" not null,
  -- Number of the next ref_update.
  next_seq bigint not null default 1,
  pack_bytes bigint not null default 0,
  created_at timestamptz not null default now(),
  unique (owner, path)
);

create table ref (
  repo_id bigint not null references repo,
  name text collate "C" not null,
  oid text collate "C" not null,
  primary key (repo_id, name)
);

create table pack (
  repo_id bigint not null references repo,
  -- git's own name of the pack, a hash over its objects.
  name text collate "C" not null,
  blob bytea not null references blob,
  size bigint not null,
  objects integer not null,
  created_at timestamptz not null default now(),
  primary key (repo_id, name)
);
create index pack_blob on pack (blob);

-- Every move of a ref, numbered per repository: the journal, and the outbox of `repo/commit-completed`.
create table ref_update (
  repo_id bigint not null references repo,
  seq bigint not null,
  -- Names the push or commit it belongs to, so that one whose answer was lost can be found.
  push_id uuid not null,
  name text collate "C" not null,
  -- Null when the ref was made.
  old_oid text collate "C",
  -- Null when the ref was removed.
  new_oid text collate "C",
  pusher text,
  -- JSON text of the fact's payload, the same for each attempt; null when there is nothing to tell.
  fact text,
  traceparent text,
  at timestamptz not null default now(),
  attempts integer not null default 0,
  -- Not tried before this; counts for the lowest unsettled seq of its repository alone.
  due_at timestamptz not null default now(),
  -- When the fact was committed to the log, or given up.
  settled_at timestamptz,
  -- Why it was given up.
  failure text,
  primary key (repo_id, seq)
);
create index ref_update_unsettled on ref_update (repo_id, seq) where settled_at is null;
create index ref_update_push on ref_update (repo_id, push_id);

create table build (
  owner text collate "C" not null,
  -- Hash over every input and tool.
  key text collate "C" not null,
  -- Digest over the modules and their places.
  digest text collate "C" not null,
  -- JSON text of what the bundle is: main module, entries, processors.
  bundle text not null,
  created_at timestamptz not null default now(),
  primary key (owner, key)
);
create index build_digest on build (owner, digest);

create table build_module (
  owner text collate "C" not null,
  key text collate "C" not null,
  name text collate "C" not null,
  kind text not null,
  blob bytea not null references blob,
  primary key (owner, key, name),
  foreign key (owner, key) references build on delete cascade
);
create index build_module_blob on build_module (blob);
