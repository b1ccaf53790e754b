-- # Who earns more than 50,000?
-- A report on adults of the US Census of 1994, planned together and paid by one charge:
--   dpsql run adult.duckdb together.sql -u alice -o together.md --param younger=40

SET epsilon = 0.5;  -- of the whole report

-- # People of each sex
-- The total counts four times as much as a group: half the noise.
-- weight: 4
SELECT COUNT(*) AS people FROM adult;

-- # Earnings by sex
SELECT sex, COUNT(*) AS people, AVG((income = '>50K')::INT) AS over_50k
FROM adult GROUP BY sex;

-- # Hours of the younger; and of others
SELECT age < $younger AS younger, AVG(hours_per_week) AS hours FROM adult GROUP BY younger;

-- # Work of women
-- chart: bar
SELECT workclass, COUNT(*) AS women
FROM adult WHERE sex = 'Female' GROUP BY workclass ORDER BY women DESC LIMIT 4;

SHOW BUDGET;
