import itertools, random
import pytest
from tests.session.test_laplace import CUBE, KEYS, VALUES, pure
from dpsql.accounting.ledger import Ledger

def zcdp():
    l = Ledger.memory()
    l.grant("alice", dataset="town", epsilon=100)
    return l

def lit(v):
    return "NULL" if v is None else f"'{v}'" if isinstance(v, str) else str(v)

@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", [pure, zcdp])
def test_beside(town, crowd, kind, seed):
    rng = random.Random(seed)
    with town.open(town.database("a", crowd(900, 1)), ledger=kind()) as s:
        hist = ["SELECT sex, COUNT(*) FROM town GROUP BY sex", "SELECT COUNT(*) FROM town WHERE smoker AND region='N'",
          "SELECT region, smoker, COUNT(*) FROM town GROUP BY 1, 2", "SELECT COUNT(*) FROM town WHERE sex='male' AND region IN ('E','S')",
          "SELECT COUNT(*) FROM town", "SELECT region, COUNT_IF(sex='male'), COUNT(*) FROM town GROUP BY 1"]
        for q in rng.sample(hist, rng.randint(1, 4)):
            s.answer(q, reuse=True, epsilon=rng.choice([.2, .5, 1.0]))
        cube = s.answer(CUBE, reuse=True, epsilon=1.0)
        cells = {r[:3]: r[3] for r in cube.rows}
        bad = []
        per = dict(epsilon=0.02)
        grouped = {}
        for k in range(4):
            for keys in itertools.combinations(KEYS, k):
                q = f"SELECT {', '.join([*keys, 'COUNT(*)'])} FROM town" + (f" GROUP BY {', '.join(keys)}" if keys else "")
                r = s.answer(q, reuse=True, **per)
                if r.charged.rho: bad.append(("charged", q, r.charged))
                # compare with CUBE rows in order of GROUPING: ambiguous NULL smoker; use GROUPING-free match where not NULL
                for row in r.rows:
                    full = {key: row[keys.index(key)] for key in keys}
                    if None in full.values(): continue
                    want = [c[3] for c in cube.rows if all(c[i] == full.get(key) for i, key in enumerate(KEYS))]
                    if row[-1] not in want: bad.append((q, row, want))
                    # as a filter
                    where = " AND ".join(f"{a} = {lit(b)}" for a, b in full.items())
                    if where:
                        q2 = f"SELECT COUNT(*) FROM town WHERE {where}"
                        f = s.answer(q2, reuse=True, **per)
                        if f.charged.rho: bad.append(("charged", q2, f.charged))
                        if f.rows[0][0] not in want: bad.append((q2, f.rows, want))
        assert not bad, (len(bad), bad[:5])
