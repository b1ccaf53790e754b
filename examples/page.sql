-- # Work and earnings in 1994
-- What the US Census of 1994 tells of **32,561 adults**, asked privately: every number has
-- noise, and says how much.
--
-- All questions are planned together and paid by one charge:
-- `dpsql run adult.parquet page.sql -u alice -o page.html`

SET epsilon = 0.5;  -- of the whole page

-- # Who was asked
-- The total counts four times as much as a group, for half the noise.
-- weight: 4
SELECT COUNT(*) AS people FROM adult;

-- # Education and earnings
-- How many there are, and the *share* of them who earn more than 50,000.
SELECT education_num AS years_of_school, COUNT(*) AS people,
       AVG((income = '>50K')::INT) AS over_50k
FROM adult WHERE education_num >= 8 GROUP BY years_of_school ORDER BY years_of_school;

-- # Kinds of employers
-- chart: bar
SELECT workclass, COUNT(*) AS people, AVG(hours_per_week) AS hours
FROM adult GROUP BY workclass HAVING people > 200 ORDER BY people DESC;

-- # Earnings through life
-- - Men and women start alike.
-- - From thirty on they do not.
-- chart: line
SELECT age // 5 * 5 AS age_from, sex, AVG((income = '>50K')::INT) AS over_50k
FROM adult WHERE age BETWEEN 20 AND 69 GROUP BY age_from, sex ORDER BY age_from, sex;

-- # Occupation and family
-- The stronger the colour, the more people; where the interval holds 0 there may be nobody.
SELECT occupation, relationship, COUNT(*) AS people
FROM adult WHERE occupation IS NOT NULL GROUP BY occupation, relationship;

-- # Subtotals
-- A table says it better than a picture.
SELECT sex, race, COUNT(*) AS people FROM adult GROUP BY ROLLUP (sex, race);

-- # What is left
SHOW BUDGET;
