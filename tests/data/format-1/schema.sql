CREATE ROLE node LOGIN;
BEGIN;
CREATE SCHEMA IF NOT EXISTS countersign;
CREATE TABLE IF NOT EXISTS countersign.ledger (
  sequence bigint PRIMARY KEY,
  line text NOT NULL
);
CREATE TABLE IF NOT EXISTS countersign.head (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  format integer NOT NULL,
  epoch integer NOT NULL,
  sequence bigint NOT NULL,
  digest text NOT NULL,
  time timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS countersign.order_references (
  name text COLLATE "C" PRIMARY KEY,
  reference text,
  erased timestamptz,
  CHECK ((reference IS NULL) <> (erased IS NULL))
);
CREATE TABLE IF NOT EXISTS countersign.nodes (
  name text PRIMARY KEY,
  instance text NOT NULL,
  version text NOT NULL,
  key_id text NOT NULL,
  secrets text NOT NULL,
  secrets_since timestamptz NOT NULL,
  sequence bigint NOT NULL,
  started timestamptz NOT NULL,
  seen timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS countersign.reports (
  license text COLLATE "C" NOT NULL,
  host text COLLATE "C" NOT NULL,
  report jsonb NOT NULL,
  PRIMARY KEY (license, host)
);
CREATE TABLE IF NOT EXISTS countersign.refused (
  license text COLLATE "C" PRIMARY KEY,
  hosts jsonb NOT NULL
);
CREATE TABLE IF NOT EXISTS countersign.webhook_cursors (
  endpoint text COLLATE "C" PRIMARY KEY,
  node text NOT NULL,
  term bigint NOT NULL,
  until timestamptz NOT NULL,
  progress jsonb NOT NULL
);
INSERT INTO countersign.head (format, epoch, sequence, digest, time) VALUES (1, 1, 0, '5ad1fb584a55d18414000bd575d191abc0be6ba6961e69417564659a55c0a242', '1970-01-01T00:00:00Z') ON CONFLICT DO NOTHING;

GRANT USAGE ON SCHEMA countersign TO "node";
GRANT SELECT, INSERT ON countersign.ledger TO "node";
GRANT SELECT, UPDATE (sequence, digest, time) ON countersign.head TO "node";
GRANT SELECT, INSERT, UPDATE ON countersign.nodes, countersign.reports, countersign.order_references TO "node";
GRANT SELECT, INSERT, UPDATE ON countersign.webhook_cursors TO "node";
GRANT SELECT, INSERT, UPDATE, DELETE ON countersign.refused TO "node";
COMMIT;
