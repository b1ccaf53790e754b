"""When a charge is refused: fully adaptive composition.

An analyst chooses each release after seeing all earlier ones, and with it its price. The rule is
a *filter*: a function of the prices alone that stops the sequence before a promise is broken.

Approximate grants (delta > 0), in rho. Let release j be rho_j-zCDP given the transcript so far
(Bun and Steinke 2016, arXiv:1605.02065), with rho_j chosen from that transcript. Fix neighbours
and an order a > 1, let P and Q be the laws of the transcript, and let

    M_j = prod_{i <= j} (dP_i/dQ_i)^a exp(-a(a-1) rho_i),

dP_i/dQ_i being the conditional density ratio of release i. Under Q, E[(dP_j/dQ_j)^a | past] is
at most exp((a-1) a rho_j) by the definition of zCDP, so M is a supermartingale and E[M_j] <= 1.
Stop before the first j at which sum rho_i would exceed rho: the sum is at most rho on every path,
so E_Q[(dP/dQ)^a] <= exp(a(a-1) rho) E_Q[M] <= exp(a(a-1) rho), for every a at once. The stopped
transcript is therefore rho-zCDP, as if the prices had been fixed beforehand (Feldman and Zrnic
2021, arXiv:2008.11193; Whitehouse et al. 2023, arXiv:2203.05481). The conversion that made the
grant's rho, which was rounded down, then makes it (epsilon, delta)-private.

Pure grants (delta = 0), in epsilon. On every transcript log dP/dQ = sum_j log dP_j/dQ_j, each term
at most epsilon_j; the rule keeps the sum at most epsilon on every path. Basic composition needs no
expectation, and so holds for adaptive prices (Rogers et al. 2016, arXiv:1605.08294).

Both sums are kept at all times, so that a grant may be replaced by one of the other kind: what was
spent counts in full, in the new kind's own terms. The decision reads prices and grants alone,
never data, so a refusal tells nothing. If an owner changes terms on the way, the promise is the
largest one in force.

Where releases have footprints, the sums are taken person by person and the largest decides: the
same argument for every pair of neighbours by itself (footprint.py).

Prices are rounded up and grants down, to whole numbers, so comparisons are exact.
"""

from __future__ import annotations

from dpsql.accounting.purse import LIMIT, Grant, Price


def holds(grant: Grant, after: Price) -> bool:
    """Whether a purse under `grant` may come to have spent `after`."""
    if not after.rho <= LIMIT:
        return False
    if grant.pure:
        return after.epsilon is not None and after.epsilon <= grant.epsilon_pico
    return after.rho <= grant.rho
