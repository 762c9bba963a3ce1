-- Statements of the log are prepared once and run for weeks, and every one of them has an index to go by. A plan made while a
-- partition was empty or small would be a sequential scan that gets slower with every event: it is never what is wanted. Set on
-- the role, because behind a pooler nothing can be set on a session.
do $$
begin
  execute format('alter role %I in database %I set enable_seqscan = off', current_user, current_database());
  execute format('alter role %I in database %I set plan_cache_mode = force_generic_plan', current_user, current_database());
end $$;
