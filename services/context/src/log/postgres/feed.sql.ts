/** The commit feed of one partition: the one read that goes by time, over all contexts of a partition. */
import type { Statement } from "./sql-session.js";

export type FeedRow = readonly [
  xid: string,
  contextId: string,
  commitNo: string,
  owner: string | null,
  path: string | null,
  firstOffset: string,
  lastOffset: string,
  lastControl: string,
  traceparent: string | null,
  atUs: string,
];

/**
 * Commits of partition $1 after ($2 xid, $3 context, $4 commit number), at most $5: only of transactions older than every one still
 * running. Whatever commits later has a transaction id at or above that bound, so it comes after every row answered here. Of a
 * context that was removed owner and path are null.
 */
export const commitsAfter: Statement = {
  name: "feed_commits_after",
  text: `
    select c.xid::text, c.context_id, c.commit_no, context.owner, context.path, c.first_offset, c.last_offset, c.last_control, c.traceparent,
      round(date_part('epoch', c.at) * 1e6)::bigint
    from (
      select * from commit
      where partition = $1 and xid < pg_snapshot_xmin(pg_current_snapshot()) and (xid, context_id, commit_no) > ($2::xid8, $3::bigint, $4::bigint)
      order by xid, context_id, commit_no limit $5
    ) c
    left join context using (context_id)
    order by c.xid, c.context_id, c.commit_no`,
};

/** One row when a commit of partition $1 after ($2, $3, $4) is there, whether or not the feed may answer it yet. */
export const hasCommitsAfter: Statement = {
  name: "feed_has_commits_after",
  text: `select 1 from commit where partition = $1 and (xid, context_id, commit_no) > ($2::xid8, $3::bigint, $4::bigint) limit 1`,
};
