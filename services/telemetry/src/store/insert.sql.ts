/** A whole batch in one autocommit statement; what is there already is left alone, so a batch of unknown outcome is sent again. */

const spanColumns =
  "trace_id, span_id, start_us, parent_span_id, duration_us, kind, is_error, owner, service, name, status_message, attributes";

export const insertSpans = `
  with links as (
    insert into span_link (linked_trace_id, linked_span_id, trace_id, span_id, start_us, owner)
    select * from unnest($13::uuid[], $14::bigint[], $15::uuid[], $16::bigint[], $17::bigint[], $18::text[])
    on conflict do nothing)
  insert into span (${spanColumns})
  select * from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::smallint[], $7::boolean[],
                       $8::text[], $9::text[], $10::text[], $11::text[], $12::text[])
  on conflict do nothing`;

export const insertLogRecords = `
  insert into log_record (owner, at_us, export, ordinal, severity, path, service, trace_id, span_id, body, attributes)
  select * from unnest($1::text[], $2::bigint[], $3::bigint[], $4::int[], $5::smallint[], $6::text[], $7::text[],
                       $8::uuid[], $9::bigint[], $10::text[], $11::text[])
  on conflict do nothing`;
