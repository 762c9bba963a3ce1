/** Values by key. A change locks the total of its context first; what it reads afterwards is what holds. */

/** Locks the total of context $1, made if it is not there: `[keys, bytes, last_version]`. */
export const lockTotal = `
  insert into kv_total as total (context_id) values ($1)
  on conflict (context_id) do update set keys = total.keys
  returning total.keys, total.bytes, total.last_version`;

/** Value, version and bytes of key $2 of context $1. */
export const findValue = `select value, version, bytes from kv where context_id = $1 and key = $2`;

/** Sets key $2 of context $1 to value $3 of version $4 and $5 bytes. */
export const setValue = `
  insert into kv (context_id, key, value, version, bytes) values ($1, $2, $3, $4, $5)
  on conflict (context_id, key) do update set value = excluded.value, version = excluded.version, bytes = excluded.bytes`;

export const removeValue = `delete from kv where context_id = $1 and key = $2`;

/** Adds $2 keys and $3 bytes to what context $1 holds, whose newest version is $4 from now on. */
export const addToTotal = `
  update kv_total set keys = keys + $2, bytes = bytes + $3, last_version = $4 where context_id = $1`;

/** Up to $4 keys of context $1 that begin with $2 and come after $3: key, version, bytes. */
export const listValues = `
  select key, version, bytes from kv
  where context_id = $1 and key > $3 and starts_with(key, $2) and key >= $2
  order by key limit $4`;
