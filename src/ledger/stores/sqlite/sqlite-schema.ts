/** The part of `node:sqlite` that a ledger uses; only sqlite-store.ts names the module itself. */
export interface Database {
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}

export interface Statement {
  get(...values: SqlValue[]): Row | undefined;
  all(...values: SqlValue[]): Row[];
  run(...values: SqlValue[]): unknown;
  setReadBigInts(enabled: boolean): void;
}

export type SqlValue = null | number | bigint | string;
export type Row = Readonly<Record<string, unknown>>;

/** Returns a prepared statement; each is prepared once per handle. */
export type Sql = (text: string) => Statement;

/** `user_version` of ledger files; incremented when the tables change. */
export const SCHEMA_VERSION = 6n;

/** `application_id` of ledger files: `ccrl` in ASCII. */
export const APPLICATION_ID = 0x6363726cn;

/** Of keys and end users: what counts against their limits. */
const COUNTERS_COLUMNS = `held               INTEGER NOT NULL,
  running            INTEGER NOT NULL,
  spent              INTEGER NOT NULL,
  counted_at         INTEGER NOT NULL,
  before_hour        INTEGER NOT NULL,
  before_day         INTEGER NOT NULL,
  before_week        INTEGER NOT NULL,
  before_month       INTEGER NOT NULL,
  request_level      INTEGER NOT NULL,
  request_level_at   INTEGER NOT NULL,
  token_level        INTEGER NOT NULL,
  token_level_at     INTEGER NOT NULL,`;

/** Of usage rows. */
const COUNTS_COLUMNS = `requests           INTEGER NOT NULL,
  errors             INTEGER NOT NULL,
  aborted            INTEGER NOT NULL,
  prompt_tokens      INTEGER NOT NULL,
  cached_tokens      INTEGER NOT NULL,
  completion_tokens  INTEGER NOT NULL,
  reasoning_tokens   INTEGER NOT NULL,
  charged            INTEGER NOT NULL,
  cost               INTEGER NOT NULL,`;

/**
 * The tables of a ledger file.
 *
 * Money is a 64-bit INTEGER: an overflow fails the command. Times are in ms;
 * absent values are NULL.
 */
export const SCHEMA: string = `
CREATE TABLE accounts (
  id                 INTEGER PRIMARY KEY,
  name               TEXT    NOT NULL UNIQUE,
  granted            INTEGER NOT NULL DEFAULT 0,
  available          INTEGER NOT NULL DEFAULT 0,
  held               INTEGER NOT NULL DEFAULT 0,
  spent              INTEGER NOT NULL DEFAULT 0,
  expired            INTEGER NOT NULL DEFAULT 0,
  written_off        INTEGER NOT NULL DEFAULT 0,
  floor              INTEGER NOT NULL DEFAULT 0,
  lowest_floor       INTEGER NOT NULL DEFAULT 0,
  frozen             INTEGER NOT NULL DEFAULT 0,
  seq                INTEGER NOT NULL DEFAULT 0,
  low_water          INTEGER NOT NULL DEFAULT 0,
  free_low_water     INTEGER NOT NULL DEFAULT 0,
  next_expiry        INTEGER,
  policy_version     INTEGER NOT NULL DEFAULT 0,
  compacted_seq      INTEGER NOT NULL DEFAULT 0,
  compacted_at       INTEGER NOT NULL DEFAULT 0,
  compacted_granted  INTEGER NOT NULL DEFAULT 0,
  compacted_spent    INTEGER NOT NULL DEFAULT 0,
  compacted_expired  INTEGER NOT NULL DEFAULT 0,
  compacted_written_off INTEGER NOT NULL DEFAULT 0,
  usage_compacted    INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE requests (
  account            INTEGER NOT NULL,
  id                 TEXT    NOT NULL,
  state              TEXT    NOT NULL,
  amount             INTEGER NOT NULL,
  checkpoint         INTEGER NOT NULL,
  due                INTEGER NOT NULL,
  api_key            TEXT    NOT NULL,
  counted_at         INTEGER NOT NULL,
  in_key             INTEGER NOT NULL,
  in_account         INTEGER NOT NULL,
  end_user           TEXT,
  tokens             INTEGER NOT NULL,
  idempotency_key    TEXT,
  body_hash          TEXT,
  model              TEXT    NOT NULL,
  line               INTEGER,
  ending             TEXT,
  provider           TEXT,
  PRIMARY KEY (account, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_idempotency ON requests (account, api_key, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
-- Two, so that the end of a request writes each once.
CREATE INDEX requests_held ON requests (account, due, id) WHERE state = 'held';
CREATE INDEX requests_final ON requests (account, due, id) WHERE state <> 'held';

-- Also the account's own row, with @ as id.
CREATE TABLE keys (
  account            INTEGER NOT NULL,
  id                 TEXT    NOT NULL,
  hash               TEXT    UNIQUE,
  previous_hash      TEXT,
  previous_until     INTEGER,
  name               TEXT    NOT NULL,
  created_at         INTEGER NOT NULL,
  limits             TEXT    NOT NULL,
  end_users          TEXT,
  expires_at         INTEGER,
  policy             TEXT,
  paused             INTEGER NOT NULL,
  revoked_at         INTEGER,
  version            INTEGER NOT NULL,
  ${COUNTERS_COLUMNS}
  PRIMARY KEY (account, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX keys_previous_hash ON keys (previous_hash) WHERE previous_hash IS NOT NULL;

-- End users whose limits are those of a key, or of the account.
CREATE TABLE end_users (
  account            INTEGER NOT NULL,
  id                 TEXT    NOT NULL,
  ${COUNTERS_COLUMNS}
  PRIMARY KEY (account, id)
) STRICT, WITHOUT ROWID;

-- Lots with something remaining.
CREATE TABLE lots (
  account            INTEGER NOT NULL,
  id                 TEXT    NOT NULL,
  amount             INTEGER NOT NULL,
  remaining          INTEGER NOT NULL,
  expires_at         INTEGER,
  priority           INTEGER NOT NULL,
  PRIMARY KEY (account, id)
) STRICT, WITHOUT ROWID;

-- In the order of position. An allowance without an end has until NULL.
CREATE TABLE allowances (
  position           INTEGER PRIMARY KEY,
  account            INTEGER NOT NULL,
  id                 TEXT    NOT NULL,
  version            INTEGER NOT NULL,
  per                TEXT    NOT NULL,
  anchor             INTEGER NOT NULL,
  until              INTEGER,
  period             INTEGER NOT NULL,
  granted            INTEGER NOT NULL,
  amount             INTEGER NOT NULL,
  rollover           TEXT    NOT NULL,
  priority           INTEGER NOT NULL,
  UNIQUE (account, id)
) STRICT;

-- Parameters with which an id of a grant or adjustment was first used.
CREATE TABLE fingerprints (
  account            INTEGER NOT NULL,
  id                 TEXT    NOT NULL,
  fingerprint        TEXT    NOT NULL,
  PRIMARY KEY (account, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE journal (
  account            INTEGER NOT NULL,
  seq                INTEGER NOT NULL,
  type               TEXT    NOT NULL,
  at                 INTEGER NOT NULL,
  id                 TEXT    NOT NULL,
  amount             INTEGER NOT NULL,
  available          INTEGER NOT NULL,
  hold               INTEGER,
  written_off        INTEGER,
  api_key            TEXT,
  model              TEXT,
  prompt_tokens      INTEGER,
  cached_tokens      INTEGER,
  cache_write_tokens INTEGER,
  completion_tokens  INTEGER,
  reasoning_tokens   INTEGER,
  web_searches       INTEGER,
  source             TEXT,
  cost               INTEGER,
  price              TEXT,
  ending             TEXT,
  reason             TEXT,
  provider           TEXT,
  upstream_model     TEXT,
  first_byte_ms      INTEGER,
  duration_ms        INTEGER,
  finish_reason      TEXT,
  streamed           INTEGER,
  byok               INTEGER,
  units              INTEGER,
  dimensions         TEXT,
  PRIMARY KEY (account, seq)
) STRICT, WITHOUT ROWID;

-- Ended requests, by UTC day of arrival, as 2026-11-21.
CREATE TABLE usage (
  account            INTEGER NOT NULL,
  day                TEXT    NOT NULL,
  api_key            TEXT    NOT NULL,
  model              TEXT    NOT NULL,
  ${COUNTS_COLUMNS}
  PRIMARY KEY (account, day, api_key, model)
) STRICT, WITHOUT ROWID;

-- The same by the value of a dimension: user, or tag:name. The value is empty for those beyond the maximum, together.
CREATE TABLE usage_by_dimension (
  account            INTEGER NOT NULL,
  day                TEXT    NOT NULL,
  dimension          TEXT    NOT NULL,
  value              TEXT    NOT NULL,
  ${COUNTS_COLUMNS}
  PRIMARY KEY (account, day, dimension, value)
) STRICT, WITHOUT ROWID;

-- One row, once there was a lease: the last reading of the wall clock and of monotonic time.
CREATE TABLE clock_reading (
  id                 INTEGER PRIMARY KEY CHECK (id = 1),
  wall               INTEGER NOT NULL,
  steady             INTEGER NOT NULL
) STRICT;

-- Gateways that use the file, each until its lease ends.
CREATE TABLE gateways (
  id                 TEXT    PRIMARY KEY,
  until              INTEGER NOT NULL
) STRICT;

-- Names of work that one process at a time may do.
CREATE TABLE claims (
  id                 TEXT    PRIMARY KEY,
  since              INTEGER NOT NULL,
  until              INTEGER NOT NULL
) STRICT;

-- The log of requests, beside the books.
CREATE TABLE request_log (
  id                 TEXT    PRIMARY KEY,
  account            TEXT    NOT NULL,
  json               TEXT    NOT NULL
) STRICT;
CREATE INDEX request_log_account ON request_log (account, id);

-- What operators have changed of the routing by hand: one row, once they have.
CREATE TABLE routing (
  id                 INTEGER PRIMARY KEY CHECK (id = 1),
  version            TEXT    NOT NULL,
  document           TEXT    NOT NULL
) STRICT;

-- What providers with a budget have cost, by period.
CREATE TABLE provider_costs (
  provider           TEXT    NOT NULL,
  from_ms            INTEGER NOT NULL,
  until_ms           INTEGER NOT NULL,
  amount             INTEGER NOT NULL,
  PRIMARY KEY (provider, from_ms, until_ms)
) STRICT, WITHOUT ROWID;

-- The last batch of costs of each process.
CREATE TABLE cost_writers (
  id                 TEXT    PRIMARY KEY,
  number             INTEGER NOT NULL,
  at                 INTEGER NOT NULL
) STRICT;

-- The sums of deleted accounts, under ids that say nothing of them.
CREATE TABLE deleted_accounts (
  id                 TEXT    PRIMARY KEY,
  deleted_at         INTEGER NOT NULL,
  granted            INTEGER NOT NULL,
  available          INTEGER NOT NULL,
  spent              INTEGER NOT NULL,
  expired            INTEGER NOT NULL,
  written_off        INTEGER NOT NULL
) STRICT;

-- Of accounts that were deleted within a day.
CREATE TABLE deletions (
  name               TEXT    PRIMARY KEY,
  at                 INTEGER NOT NULL
) STRICT;

PRAGMA application_id = ${APPLICATION_ID};
PRAGMA user_version = ${SCHEMA_VERSION};
`;
