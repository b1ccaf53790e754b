-- A report for the shell:  dpsql shell adult.duckdb < report.sql
-- Every statement is paid for; the first error ends the report.

SET epsilon = 0.1;

-- How many people are there of each sex?
SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex;

-- What share of each age group earns more than 50,000?
SELECT age // 20 * 20 AS age_from, AVG((income = '>50K')::INT) AS share
FROM adult
WHERE age BETWEEN 20 AND 79
GROUP BY age_from
ORDER BY age_from;

-- How long do people work, at what cost for the whole report?
SELECT workclass, AVG(hours_per_week) AS hours
FROM adult
WHERE workclass IN ('Private', 'Local-gov', 'Self-emp-inc')
GROUP BY workclass;

SHOW BUDGET;
