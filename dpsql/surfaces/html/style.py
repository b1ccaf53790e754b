"""How pages look: light and dark, on a telephone and on paper; no font and no file from elsewhere.

Colours are named once, with a value for each theme; `tests/surfaces/html` holds them to WCAG's AA.
"""

from __future__ import annotations

# name: light, dark
COLOURS = {
    "page": ("#ffffff", "#14171c"),
    "panel": ("#f5f6f8", "#1c2027"),
    "ink": ("#1b1f26", "#e7eaef"),
    "soft": ("#565e6b", "#a4adba"),
    "rule": ("#d5d9e0", "#333a45"),
    "grid": ("#e6e9ee", "#272d36"),
    "zero": ("#7d8694", "#7f8896"),
    "link": ("#1d4fa8", "#8db7ff"),
    "bar": ("#5b8bd0", "#4676bd"),
    "err": ("#14181f", "#f4f6f9"),
    "bad": ("#a4262c", "#ff9d96"),
    "s0": ("#2f6cc0", "#6ba4f0"),
    "s1": ("#b3530a", "#f0964a"),
    "s2": ("#15795b", "#4dbd97"),
    "s3": ("#8a3f9c", "#cf8be0"),
    "s4": ("#5f6570", "#b3bac6"),
}
# of a heat map, from least to most: what fills a cell, and what is written on it
HEAT = {
    "light": (
        ("#eaf1fb", "#1b1f26"), ("#cfe0f6", "#1b1f26"), ("#abc9ee", "#1b1f26"),
        ("#83aee3", "#1b1f26"), ("#3f74bd", "#ffffff"), ("#25569b", "#ffffff"),
        ("#123a74", "#ffffff"),
    ),
    "dark": (
        ("#1d2a3d", "#e7eaef"), ("#22395a", "#e7eaef"), ("#274a7a", "#ffffff"),
        ("#2f5d9b", "#ffffff"), ("#78a6e6", "#10141a"), ("#a3c5f5", "#10141a"),
        ("#d3e4fd", "#10141a"),
    ),
}  # fmt: skip


def _theme(at: int, heat: tuple[tuple[str, str], ...]) -> str:
    named = [f"--{name}:{values[at]}" for name, values in COLOURS.items()]
    cells = [f"--h{n}:{fill};--t{n}:{ink}" for n, (fill, ink) in enumerate(heat)]
    return ";".join([*named, *cells])


_SERIES = "".join(f".s{n}{{--s:var(--s{n})}}" for n in range(5))
_CELLS = "".join(
    f".h{n}{{fill:var(--h{n})}}.key .h{n}{{background:var(--h{n})}}.plot .h{n}t{{fill:var(--t{n})}}"
    for n in range(len(HEAT["light"]))
)
_DASHES = ".s1.l{stroke-dasharray:7 3}.s2.l{stroke-dasharray:2 3}.s3.l{stroke-dasharray:9 3 2 3}"

_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
overflow-wrap:break-word}
header,main,footer{max-width:56rem;margin:0 auto;padding:0 1.25rem}
.wide>*{max-width:68rem}header{padding-top:2.75rem}
h1{font-size:2rem;line-height:1.2;letter-spacing:-.015em;margin:0 0 .6rem;text-wrap:balance}
h2{font-size:1.3rem;line-height:1.3;letter-spacing:-.008em;margin:0 0 .5rem;text-wrap:balance}
h3{font-size:1.02rem;line-height:1.35;margin:1.6rem 0 .4rem}
p,ul,ol{margin:.5rem 0;max-width:42rem}
a{color:var(--link);text-underline-offset:.15em}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace}
code{font-size:.9em;background:var(--panel);padding:.1em .3em;border-radius:3px}
section{margin:0;padding:2rem 0 1.6rem;border-top:1px solid var(--rule)}
.soft,.meta,footer{color:var(--soft);font-size:.875rem}
.meta{margin-top:.8rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem;
margin:1.6rem 0 2rem}
.tiles div{background:var(--panel);border-radius:8px;padding:.75rem 1rem .8rem}
.tiles dt{color:var(--soft);font-size:.8125rem}
.tiles dd{margin:.1rem 0 0;font-size:1.45rem;line-height:1.25;font-weight:600;
font-variant-numeric:tabular-nums;letter-spacing:-.01em}
.tiles dd small{display:block;font-size:.8125rem;font-weight:400;letter-spacing:0;
color:var(--soft);line-height:1.4}
figure{margin:1.1rem 0 1.3rem;min-width:0}
figcaption{font-size:.9rem;font-weight:600;margin-bottom:.45rem}
.charts.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(24rem,100%),1fr));
column-gap:2rem}
.charts{min-width:0}
.draw{overflow-x:auto;overflow-y:hidden}
.plot{display:block;width:100%;box-sizing:border-box;overflow:visible}
.plot svg{overflow:visible}
.plot text{font-size:12px;fill:var(--soft);font-variant-numeric:tabular-nums}
.plot .x{text-anchor:middle}.plot .y,.plot .r{text-anchor:end}
.plot .y{fill:var(--ink)}.plot .n{font-style:italic}
.g{stroke:var(--grid)}.z{stroke:var(--zero)}
.b{fill:var(--bar)}.e{stroke:var(--err);stroke-width:1.5}
.l{fill:none;stroke:var(--s);stroke-width:2;vector-effect:non-scaling-stroke;
stroke-linejoin:round}
.band{fill:var(--s);fill-opacity:.2}.d{fill:var(--s)}
.lim{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:5 4}.plot .r{fill:var(--bad)}
.plot [class^=h]{text-anchor:middle}
.plot rect[class^=h]{stroke:var(--page);stroke-width:1}
.plot rect.hu{fill:none;stroke:var(--zero);stroke-dasharray:3 3}
.plot rect.hn{fill:var(--panel)}
.axis{margin:.1rem 0 0;text-align:center;max-width:none;font-size:.8125rem;color:var(--soft)}
.key{list-style:none;display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;padding:0;margin:.5rem 0 0;
font-size:.8125rem;color:var(--soft);max-width:none;font-variant-numeric:tabular-nums}
.key li{display:flex;align-items:center}
.key .sw{display:inline-block;width:14px;height:14px;margin-right:.4rem;border-radius:3px;
background:var(--s)}
.key .ramp .sw{margin:0;border-radius:0;width:18px}
.key .ramp{gap:0}.key .ramp .h0{margin-left:.45rem}.key .ramp .h6{margin-right:.45rem}
.key .hu{background:none;border:1px dashed var(--zero)}
.box{overflow:auto;max-height:40rem;
background:linear-gradient(transparent,var(--page) 60%) 0 100%/100% 2.4rem no-repeat local,
linear-gradient(90deg,transparent,var(--page) 60%) 100% 0/2.4rem 100% no-repeat local,
linear-gradient(transparent,var(--rule)) 0 100%/100% .7rem no-repeat scroll,
linear-gradient(90deg,transparent,var(--rule)) 100% 0/.7rem 100% no-repeat scroll;
margin:.9rem 0;border:1px solid var(--rule);
border-radius:8px;width:fit-content;min-width:min(100%,22rem);max-width:100%}
.charts+.box{max-height:26rem}
.box:focus-visible,summary:focus-visible,a:focus-visible{outline:2px solid var(--link);
outline-offset:2px}
table{border-collapse:separate;border-spacing:0;min-width:100%;font-size:.9rem;line-height:1.4}
caption{text-align:left;padding:.55rem .85rem;font-size:.8125rem;color:var(--soft)}
th,td{padding:.38rem 1.1rem .38rem .85rem;text-align:left;vertical-align:top;
border-top:1px solid var(--grid)}
.dense{font-size:.85rem}.dense th,.dense td{padding-left:.5rem;padding-right:.5rem}
thead th{position:sticky;top:0;background:var(--panel);font-weight:600;white-space:nowrap;
border-top:1px solid var(--rule);border-bottom:1px solid var(--rule);z-index:1}
tbody tr:first-child>*{border-top:0}
tbody th{font-weight:400}
tfoot th,tfoot td{font-weight:600;border-top:1px solid var(--zero)}
.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.pm{color:var(--soft);white-space:pre}.null{color:var(--soft);font-style:italic}
.bad{color:var(--bad);font-weight:600}
caption span{display:inline-block;position:sticky;left:.85rem;
max-width:min(100%,calc(100vw - 4.5rem))}
.sql{display:block;min-width:16rem;font-size:.8125rem;line-height:1.45;background:none;padding:0}
.nw{white-space:nowrap}
.price{font-size:.875rem;color:var(--soft);max-width:none}
.notes{font-size:.875rem;color:var(--soft);padding-left:1.1rem}
details{margin:.6rem 0;font-size:.875rem}
summary{cursor:pointer;color:var(--link);width:fit-content}
pre{background:var(--panel);border-radius:8px;padding:.8rem 1rem;overflow-x:auto;
font-size:.8125rem;line-height:1.5;margin:.5rem 0}
.meter{display:block;height:8px;min-width:7rem;background:var(--rule);border-radius:4px;
overflow:hidden;margin:.42rem 0}
.meter i{display:block;height:100%;background:var(--bar)}
.meter.low i{background:var(--bad)}
footer{padding-bottom:2.5rem}
footer p{max-width:none;border-top:1px solid var(--rule);padding-top:1.1rem;margin-top:.5rem}
@media (max-width:30rem){body{font-size:15px}header{padding-top:1.6rem}h1{font-size:1.55rem}
header,main,footer{padding-left:1rem;padding-right:1rem}.plot .w{display:none}
th,td,caption{padding-left:.65rem;padding-right:.65rem}.tiles{gap:.5rem}
.tiles dd{font-size:1.2rem}.tiles{grid-template-columns:1fr 1fr}}
@media (forced-colors:active){.plot,.sw,.meter{forced-color-adjust:none}}
@page{margin:16mm}
"""
_PRINT = """body{font-size:10pt}header,main,footer{max-width:none;padding:0}
.box,.charts+.box{max-height:none;overflow:visible;max-width:none}
thead th{position:static;white-space:normal}table{font-size:8.5pt}th,td{padding:.25rem .5rem}
.dense{font-size:7.5pt}.dense th,.dense td{padding:.25rem .3rem}
.dense th,tbody th{overflow-wrap:anywhere}
section{break-before:auto;padding:1rem 0}figure,tr,.tiles{break-inside:avoid}
.charts.two{grid-template-columns:repeat(auto-fit,minmax(18rem,1fr))}
h2,h3,figcaption,caption{break-after:avoid}summary,a{color:inherit}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}pre{white-space:pre-wrap}"""

CSS = (
    f":root{{color-scheme:light dark;{_theme(0, HEAT['light'])}}}"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_theme(1, HEAT['dark'])}}}}}"
    + _RULES
    + _SERIES
    + _CELLS
    + _DASHES
    + f"@media print{{{_PRINT}}}"
).replace("\n", "")
