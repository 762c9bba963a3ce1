-- Everything is partitioned by UTC day of its time in microseconds since 1970; the service makes and drops the partitions.
-- Ids that others made (trace, span) are kept as numbers of their size. The keys are what a second delivery of the same export meets.

create table span (
  trace_id uuid not null,
  span_id bigint not null,
  start_us bigint not null,
  parent_span_id bigint not null,
  duration_us bigint not null,
  kind smallint not null,
  is_error boolean not null,
  owner text not null,
  service text not null,
  name text not null,
  status_message text not null,
  attributes text not null,
  primary key (trace_id, span_id, start_us)
) partition by range (start_us);

-- One row for each link of a span to a span of another trace. The key answers "who is linked to this trace", the index the reverse.
create table span_link (
  linked_trace_id uuid not null,
  linked_span_id bigint not null,
  trace_id uuid not null,
  span_id bigint not null,
  start_us bigint not null,
  owner text not null,
  primary key (linked_trace_id, linked_span_id, trace_id, span_id, start_us)
) partition by range (start_us);

create index span_link_from on span_link (trace_id, span_id);

-- A record has no id of its own: `export` names the request it came in, `ordinal` its place there.
create table log_record (
  owner text not null,
  at_us bigint not null,
  export bigint not null,
  ordinal int not null,
  severity smallint not null,
  path text not null,
  service text not null,
  trace_id uuid,
  span_id bigint,
  body text not null,
  attributes text not null,
  primary key (owner, at_us, export, ordinal)
) partition by range (at_us);
