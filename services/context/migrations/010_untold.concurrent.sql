create index concurrently if not exists context_untold on context (context_id) where not is_told;
