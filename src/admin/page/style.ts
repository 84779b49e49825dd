/** Colors of a page that follows the system's light or dark, unless `data-theme` says which. */
const COLORS = /* css */ `
:root {
  color-scheme: light dark;
  --page: light-dark(#f6f4ef, #121412);
  --surface: light-dark(#ffffff, #1b1e1c);
  --raised: light-dark(#ffffff, #262a27);
  --line: light-dark(#e7e3da, #2c312d);
  --hover: light-dark(#f3f1ea, #242825);
  --text: light-dark(#1c2320, #e8ebe7);
  --muted: light-dark(#636b66, #98a29b);
  --accent: light-dark(#0f7a52, #35b483);
  --on-accent: light-dark(#ffffff, #08130e);
  --warn: light-dark(#8f5400, #e7b15c);
  --warn-back: light-dark(#fbeed7, #3a2d15);
  --bad: light-dark(#b3261e, #ff9b92);
  --bad-back: light-dark(#fbe6e3, #43211e);
  --good-back: light-dark(#e0f1e8, #16352a);
  --cool: light-dark(#2d5f9e, #8fb8ee);
  --cool-back: light-dark(#e4edf8, #1d2d44);
  --shadow: light-dark(rgb(40 36 24 / 0.05), rgb(0 0 0 / 0));
  --tone-0: light-dark(#17835b, #35b483);
  --tone-1: light-dark(#4a74b8, #7da5e6);
  --tone-2: light-dark(#d49433, #e0ac55);
  --tone-3: light-dark(#8d63ad, #b995d8);
  --tone-4: light-dark(#c8604f, #e58a79);
  --tone-5: light-dark(#3c9fae, #63c4d2);
  --tone-rest: light-dark(#b4b3ac, #5d645f);
  font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif;
}
:root[data-theme='light'] { color-scheme: light; }
:root[data-theme='dark'] { color-scheme: dark; }
.tone-0 { fill: var(--tone-0); background: var(--tone-0); }
.tone-1 { fill: var(--tone-1); background: var(--tone-1); }
.tone-2 { fill: var(--tone-2); background: var(--tone-2); }
.tone-3 { fill: var(--tone-3); background: var(--tone-3); }
.tone-4 { fill: var(--tone-4); background: var(--tone-4); }
.tone-5 { fill: var(--tone-5); background: var(--tone-5); }
.tone-rest { fill: var(--tone-rest); background: var(--tone-rest); }
`;

const FRAME = /* css */ `
* { box-sizing: border-box; margin: 0; }
[hidden] { display: none !important; }
body { background: var(--page); color: var(--text); min-height: 100vh; }
button, input, select { font: inherit; color: inherit; }
button { cursor: pointer; background: none; border: 0; padding: 0; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 6px; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.faint { color: var(--muted); font-size: 0.8125rem; font-weight: 400; }
.number, .figure { font-variant-numeric: tabular-nums; }

body[data-waiting] :is(.field, .segments) { display: none; }
body[data-waiting] #notice { max-width: 460px; margin: 16vh auto 0; padding: 24px; text-align: center; }
header { position: sticky; top: 0; z-index: 2; background: color-mix(in srgb, var(--page) 88%, transparent); backdrop-filter: blur(10px); border-bottom: 1px solid var(--line); }
.bar { display: flex; flex-wrap: wrap; align-items: center; gap: 10px 12px; max-width: 1240px; margin: 0 auto; padding: 12px 24px; }
.mark rect { fill: var(--accent); }
.mark path { fill: none; stroke: var(--on-accent); stroke-width: 3.6; stroke-linecap: round; }
h1 { font-size: 1.125rem; font-weight: 650; letter-spacing: -0.01em; }
#updated { margin-top: 2px; }
.bar .controls { margin-left: auto; }
.controls { display: flex; flex-wrap: wrap; align-items: center; gap: 8px; }

select, input { height: 34px; max-width: 220px; padding: 0 10px; border: 1px solid var(--line); border-radius: 8px; background: var(--surface); }
select { padding-right: 4px; }
.segments { display: inline-flex; padding: 2px; border: 1px solid var(--line); border-radius: 9px; background: var(--surface); }
.segments button { height: 28px; padding: 0 11px; border-radius: 6px; color: var(--muted); font-size: 0.875rem; white-space: nowrap; }
.segments button:hover { color: var(--text); }
.segments button[aria-pressed='true'] { background: var(--good-back); color: var(--accent); font-weight: 600; }
.segments.small button { height: 24px; font-size: 0.8125rem; }
.round { display: grid; place-items: center; width: 34px; height: 34px; border: 1px solid var(--line); border-radius: 50%; background: var(--surface); color: var(--muted); }
.round:hover { color: var(--text); }
.round circle { fill: none; stroke: currentColor; stroke-width: 1.6; }
.round path { fill: currentColor; }
.plain { height: 34px; padding: 0 8px; color: var(--muted); font-size: 0.875rem; }
.plain:hover { color: var(--text); }
#more { display: block; margin: 8px auto -8px; }
.chip { height: 30px; padding: 0 12px; border-radius: 15px; background: var(--warn-back); color: var(--warn); font-size: 0.8125rem; font-weight: 600; }
.chip[aria-pressed='true'] { background: var(--warn); color: var(--surface); }
.primary { height: 38px; padding: 0 18px; border-radius: 8px; background: var(--accent); color: var(--on-accent); font-weight: 600; }

main { max-width: 1240px; margin: 0 auto; padding: 20px 24px 56px; }
#report { display: grid; gap: 16px; transition: opacity 0.2s; }
#report > *, .pair > * { min-width: 0; }
#report[data-stale] { opacity: 0.6; }
.card { padding: 20px; border: 1px solid var(--line); border-radius: 14px; background: var(--surface); box-shadow: 0 1px 2px var(--shadow), 0 6px 24px -12px var(--shadow); }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 16px; }
.title { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 8px 16px; min-height: 30px; margin-bottom: 10px; }
h2 { font-size: 0.9375rem; font-weight: 650; letter-spacing: -0.005em; }

.tiles { display: grid; grid-template-columns: repeat(5, 1fr); gap: 16px; }
.tile { padding: 16px 18px 15px; min-width: 0; }
.tile h2 { color: var(--muted); font-size: 0.8125rem; font-weight: 500; }
.figure { margin: 2px 0 3px; font-size: 1.625rem; font-weight: 640; line-height: 1.25; letter-spacing: -0.025em; overflow-wrap: anywhere; }
.tile .faint { min-height: 2.8em; line-height: 1.4; }
.tile span { display: block; }
.tile .low { color: var(--warn); font-weight: 600; }

.notice { margin-bottom: 16px; padding: 11px 16px; border-radius: 10px; background: var(--warn-back); color: var(--warn); }
.notice.bad { background: var(--bad-back); color: var(--bad); }
.sign-in { display: grid; gap: 10px; max-width: 380px; margin: 12vh auto 0; padding: 28px; }
.sign-in:not([hidden]) + #report { display: none; }
.sign-in h2 { font-size: 1.25rem; }
.sign-in label { margin-top: 8px; font-size: 0.875rem; font-weight: 600; }
.sign-in input { height: 40px; max-width: none; }
.sign-in .bad { color: var(--bad); }
.sign-in .primary { margin-top: 8px; }
.nothing { padding: 44px 16px; color: var(--muted); text-align: center; }
`;

const DATA = /* css */ `
.plot { position: relative; border-radius: 8px; }
.plot > svg { display: block; max-width: 100%; }
.plot:focus-visible { outline-offset: 6px; }
.grid { stroke: var(--line); stroke-width: 1; shape-rendering: crispEdges; }
.tick { fill: var(--muted); font-size: 11.5px; font-variant-numeric: tabular-nums; }
.band { fill: transparent; }
.column[data-on] .band { fill: var(--hover); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin-bottom: 12px; padding: 0; list-style: none; color: var(--muted); font-size: 0.8125rem; }
.legend li { display: flex; align-items: center; min-width: 0; max-width: min(340px, 100%); }
.legend span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.swatch { display: inline-block; flex: none; width: 10px; height: 10px; margin-right: 7px; border-radius: 3px; }
details { margin-top: 10px; }
summary { width: fit-content; color: var(--muted); font-size: 0.8125rem; cursor: pointer; }
summary:hover { color: var(--text); }
details .scroll { max-height: 320px; margin-top: 10px; overflow: auto; }

.ranks { display: grid; gap: 2px; margin: 0 -10px; }
.rank { display: grid; grid-template-columns: minmax(0, 1fr) auto minmax(84px, auto); gap: 3px 14px; align-items: baseline; padding: 7px 10px 10px; border-radius: 8px; }
.rank[data-on] { background: var(--hover); }
.rank .name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.rank .note { color: var(--muted); font-size: 0.8125rem; }
.rank .value { text-align: right; font-weight: 600; }
.rank .track { grid-column: 1 / -1; display: block; height: 6px; }
.rail { fill: var(--hover); }
.rank[data-on] .rail { fill: var(--line); }
small { color: var(--muted); font-size: 0.8125rem; font-weight: 400; }
.rank small { margin-left: 4px; }

.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 0.875rem; }
th, td { padding: 9px 12px; border-top: 1px solid var(--line); text-align: left; vertical-align: middle; white-space: nowrap; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
thead th { border-top: 0; padding-top: 4px; color: var(--muted); font-size: 0.8125rem; font-weight: 500; }
thead button { color: inherit; }
thead button:hover { color: var(--text); }
thead [aria-sort] { color: var(--text); font-weight: 600; }
thead [aria-sort] button::after { content: ' ↓'; }
thead [aria-sort='ascending'] button::after { content: ' ↑'; }
tbody th { max-width: 300px; overflow: hidden; text-overflow: ellipsis; font-weight: 500; }
tbody small { display: block; overflow: hidden; text-overflow: ellipsis; }
tbody tr:hover:not(.empty) > * { background: linear-gradient(var(--hover), var(--hover)); }
th.number, td.number { text-align: right; }
.empty td { padding: 28px 0; color: var(--muted); text-align: center; white-space: normal; }
.link { text-align: left; overflow: hidden; max-width: 100%; text-overflow: ellipsis; vertical-align: bottom; font-weight: 500; }
.link:hover { color: var(--accent); text-decoration: underline; text-underline-offset: 3px; }
.strong { font-weight: 650; }
td.low { color: var(--warn); }
td.empty { color: var(--bad); }
.badge { display: inline-block; margin-left: 4px; padding: 0 8px; border-radius: 10px; font-size: 0.75rem; font-weight: 600; line-height: 20px; }
td > .badge { margin-left: 0; }
.badge.low, .badge.probing { background: var(--warn-back); color: var(--warn); }
.badge.empty, .badge.ejected { background: var(--bad-back); color: var(--bad); padding: 0 8px; }
.badge.frozen { background: var(--cool-back); color: var(--cool); }
.badge.healthy { background: var(--good-back); color: var(--accent); }
.trend { display: block; overflow: visible; }
.trend .line { fill: none; stroke: var(--accent); stroke-width: 1.4; stroke-linejoin: round; }
.trend .under { fill: var(--accent); opacity: 0.12; }
.pulse { display: inline-block; width: 8px; height: 8px; margin-right: 7px; border-radius: 50%; background: var(--accent); animation: pulse 2s ease-in-out infinite; }
@keyframes pulse { 50% { opacity: 0.35; } }

.tooltip { position: fixed; z-index: 3; max-width: 320px; padding: 10px 13px; border: 1px solid var(--line); border-radius: 10px; background: var(--raised); box-shadow: 0 8px 28px -8px rgb(0 0 0 / 0.28); font-size: 0.8125rem; pointer-events: none; overflow-wrap: anywhere; }
.tooltip p { display: flex; justify-content: space-between; gap: 24px; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
.tooltip dl + dl { padding-top: 7px; border-top: 1px solid var(--line); }
.tooltip dl { display: grid; grid-template-columns: 1fr auto; gap: 1px 24px; margin-top: 7px; }
.tooltip dt { color: var(--muted); }
.tooltip dd { text-align: right; font-variant-numeric: tabular-nums; }

@media (max-width: 1080px) {
  .tiles { grid-template-columns: repeat(6, 1fr); }
  .tile { grid-column: span 2; }
  .tile:nth-child(-n + 2) { grid-column: span 3; }
}
@media (max-width: 1000px) { .pair { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 640px) {
  .bar { padding: 10px 16px; }
  .bar .controls { width: 100%; margin: 0; }
  .bar .field { flex: 1; }
  .bar select { width: 100%; max-width: none; }
  .bar .word, .rank .note { display: none; }
  header { position: static; }
  main { padding: 12px 12px 40px; }
  #report, .tiles, .pair { gap: 10px; }
  .card { padding: 16px; border-radius: 12px; }
  .tiles { grid-template-columns: 1fr 1fr; }
  .tile, .tile:nth-child(-n + 2) { grid-column: auto; padding: 13px 14px; }
  .tile:first-child { grid-column: 1 / -1; }
  .tile .faint { min-height: 0; }
  .figure { font-size: 1.25rem; }
  .wide { display: none; }
  th, td { padding: 9px 6px; }
  .rank { grid-template-columns: minmax(0, 1fr) auto; }
  tbody th { min-width: 24vw; max-width: 40vw; white-space: normal; overflow-wrap: anywhere; }
  .title .field, .title .field input { width: 100%; max-width: none; }
  .title > .controls { width: 100%; }
}
@media (prefers-reduced-motion: reduce) { * { animation: none !important; transition: none !important; } }
`;

export const STYLE: string = COLORS + FRAME + DATA;
