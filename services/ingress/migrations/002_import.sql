-- Projects that are made from an archive. A project is invisible until its import is complete; one that is replaced stays as it is until
-- then. Whoever imports says every few seconds that it is alive; what falls silent is finished or removed by any process.
alter table project
  add column is_open boolean not null default true,
  add column import_id text unique,
  -- staging → opening → cleaning → none; staging → removing → none, after any failure.
  add column import_step text check (import_step in ('staging', 'opening', 'cleaning', 'removing')),
  add column import_at timestamptz;
create index project_import on project (import_at) where import_id is not null;
