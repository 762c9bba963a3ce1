-- Projects and the addresses at which providers post to them.

create table project (
  id text primary key,
  slug text not null unique,
  created_by text not null,
  template text,
  created_at timestamptz not null default now(),
  -- Birth facts and the template's commit are owed until announced_at is set; due_at says when to try next.
  announced_at timestamptz,
  due_at timestamptz default now(),
  attempts integer not null default 0
);

create index project_owed on project (due_at) where announced_at is null;

create table webhook_endpoint (
  id text primary key,
  project_id text not null references project (id),
  provider text not null,
  name text not null,
  secret_path text not null,
  created_at timestamptz not null default now(),
  unique (project_id, provider, name)
);
