-- Imports of projects, and what remains of replaced ones.
--
-- An import writes its contexts under the name `imp_<id>`, which nobody can address, and takes the project's own name when it is
-- complete; contexts that stood there are closed first and called `rem_<id>` until they are removed. A closed context has a last commit
-- of generation 0, which no writer can follow, and a first offset that no reader reaches: these two rows stay, for a process may remember
-- the context for long.

create table import (
  id text collate "C" primary key check (id ~ '^[0-9a-f]{32}$'),
  -- The project that is imported. While the row is here, no context of that name is born.
  owner text collate "C" not null unique,
  -- True once nothing else stands under that name: the import's contexts are taking it.
  is_cleared boolean not null default false,
  -- Set when it is given up: nothing is written for it from then on.
  is_removed boolean not null default false
);
