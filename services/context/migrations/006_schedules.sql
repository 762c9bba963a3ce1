-- When schedules are due.
--
-- A row follows from the core state of its context and is written by the commit that changes it: a release that knows no schedules
-- neither writes nor needs one. Whoever claims a row looks at the core state before anything is fired, so a wrong row costs a look.

create table schedule_due (
  context_id bigint not null,
  key text collate "C" not null,
  -- Offset of the event that set the schedule.
  scheduled_at bigint not null,
  -- 'infinity' while the context is paused.
  due_at timestamptz not null,
  -- Until then the row is some process's to work on.
  claimed_until timestamptz not null default '-infinity',
  primary key (context_id, key)
) with (fillfactor = 50);
create index schedule_due_at on schedule_due (due_at);

-- Finds the contexts that hold schedules.
create index core_state_schedules on core_state (context_id) where concern = 'schedules';
