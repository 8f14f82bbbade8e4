-- digits.sql - reads digits with a network that is a value of a table. run.sh sets the variable `work`.
\set library :work /tlua_run
CREATE FUNCTION tlua_run(program bytea, numbers real[]) RETURNS real[]
  AS :'library' LANGUAGE C STRICT STABLE PARALLEL SAFE;

CREATE TABLE models (name text PRIMARY KEY, program bytea);
\set file :work /digits.tlp
INSERT INTO models VALUES ('digits', pg_read_binary_file(:'file'));
\set file :work /damaged.tlp
INSERT INTO models VALUES ('damaged', pg_read_binary_file(:'file'));

CREATE TABLE digits (pixels real[], digit int);
\set file :work /digits.tsv
COPY digits FROM :'file';

-- The digit with the greatest score.
CREATE FUNCTION best(scores real[]) RETURNS int LANGUAGE sql IMMUTABLE AS
  'SELECT i::int - 1 FROM unnest(scores) WITH ORDINALITY AS s(score, i) ORDER BY score DESC LIMIT 1';

SELECT 'right: ' || count(*) || ' of 360'
  FROM digits, models WHERE name = 'digits' AND best(tlua_run(program, pixels)) = digit;
SELECT tlua_run(program, '{1, 2, 3}') FROM models WHERE name = 'digits';
SELECT tlua_run(program, pixels) FROM digits, models WHERE name = 'damaged';
SELECT 'the server goes on: ' || count(*) FROM digits;
