/** The page before any number is known; `{style}` and `{script}` stand for theirs. */
export const MARKUP = /* html */ `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta name="referrer" content="no-referrer">
<title>Usage</title>
<link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='8' fill='%230f7a52'/%3E%3Cpath d='M9 23v-6m7 6V9m7 14v-9' stroke='%23fff' stroke-width='3.6' stroke-linecap='round'/%3E%3C/svg%3E">
<style>{style}</style>
</head>
<body id="body" data-waiting>
<header>
  <div class="bar">
    <svg class="mark" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true"><rect width="32" height="32" rx="8"/><path d="M9 23v-6m7 6V9m7 14v-9"/></svg>
    <h1>Usage</h1>
    <p id="updated" class="faint"></p>
    <div id="controls" class="controls">
      <div class="field"><select id="account" aria-label="Account"><option value="">All accounts</option></select></div>
      <div class="segments" role="group" aria-label="Range">
        <button type="button" id="days-7" aria-label="7 days">7<span class="word"> days</span></button><button type="button" id="days-30" aria-label="30 days">30<span class="word"> days</span></button><button type="button" id="days-90" aria-label="90 days">90<span class="word"> days</span></button>
      </div>
      <button type="button" id="theme" class="round" aria-label="Theme"><svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true"><circle cx="10" cy="10" r="7"/><path d="M10 3a7 7 0 0 1 0 14z"/></svg></button>
      <button type="button" id="sign-out" class="plain" hidden>Sign out</button>
    </div>
  </div>
</header>
<main id="main">
<noscript><p class="notice bad">This page reads its numbers with JavaScript, which is switched off here.</p></noscript>
<div id="notice" class="notice bad" role="status" hidden></div>
<form id="sign-in" class="card sign-in" hidden>
  <h2>Sign in</h2>
  <p id="sign-in-why">The admin door wants to know who asks.</p>
  <label for="token">Token</label>
  <input id="token" type="password" autocomplete="off" spellcheck="false" required>
  <p class="faint">Sent as a bearer token. Kept in this tab, and forgotten with it.</p>
  <button type="submit" class="primary">Sign in</button>
</form>
<div id="report" hidden>
  <section class="tiles" aria-label="In short">
    <div class="card tile"><h2>Charged</h2><p class="figure" id="charged">–</p><p class="faint" id="charged-note"></p></div>
    <div class="card tile"><h2>Margin</h2><p class="figure" id="margin">–</p><p class="faint" id="margin-note"></p></div>
    <div class="card tile"><h2>Requests</h2><p class="figure" id="requests">–</p><p class="faint" id="requests-note"></p></div>
    <div class="card tile"><h2>Tokens</h2><p class="figure" id="tokens">–</p><p class="faint" id="tokens-note"></p></div>
    <div class="card tile"><h2>Balance</h2><p class="figure" id="balance">–</p><p class="faint" id="balance-note"></p></div>
  </section>

  <section class="card" aria-labelledby="daily-title">
    <div class="title">
      <h2 id="daily-title">By day</h2>
      <div class="segments small" role="group" aria-label="What the bars show">
        <button type="button" id="unit-charged">Charge</button><button type="button" id="unit-requests">Requests</button><button type="button" id="unit-tokens">Tokens</button>
      </div>
    </div>
    <ul id="legend" class="legend"></ul>
    <div id="daily" class="plot" role="group" tabindex="0"></div>
    <p id="daily-empty" class="nothing" hidden></p>
    <details id="daily-details"><summary>The same as a table</summary>
      <div class="scroll"><table>
        <thead><tr><th scope="col">Day (UTC)</th><th scope="col" class="number">Requests</th><th scope="col" class="number">Errors</th><th scope="col" class="number">Aborted</th><th scope="col" class="number">Tokens</th><th scope="col" class="number">Charged</th><th scope="col" class="number">Cost</th></tr></thead>
        <tbody id="daily-rows"></tbody>
      </table></div>
    </details>
  </section>

  <div class="pair">
    <section class="card" aria-labelledby="models-title">
      <div class="title"><h2 id="models-title">By model</h2></div>
      <div id="models" class="plot ranks" role="group" tabindex="0"></div>
      <p id="models-empty" class="nothing" hidden>No model was used in this range.</p>
    </section>
    <section class="card" aria-labelledby="keys-title">
      <div class="title"><h2 id="keys-title">By key</h2></div>
      <div id="keys" class="plot ranks" role="group" tabindex="0"></div>
      <p id="keys-empty" class="nothing" hidden>No key was used in this range.</p>
    </section>
  </div>

  <div class="pair">
    <section class="card" aria-labelledby="live-title">
      <div class="title"><h2 id="live-title">Live requests <span id="live-count" class="faint">0</span></h2><p class="faint"><i class="pulse"></i>of this process</p></div>
      <div class="scroll"><table>
        <thead><tr><th scope="col">Model</th><th scope="col">Account</th><th scope="col" class="wide">Answer</th><th scope="col" class="number">For</th></tr></thead>
        <tbody id="live-rows"></tbody>
      </table></div>
    </section>
    <section class="card" aria-labelledby="health-title">
      <div class="title"><h2 id="health-title">Providers</h2><p class="faint">as this process sees them</p></div>
      <div class="scroll"><table>
        <thead><tr><th scope="col">Provider</th><th scope="col">State</th><th scope="col" class="number">Failures</th><th scope="col" class="number">First byte</th><th scope="col" class="number wide">Running</th></tr></thead>
        <tbody id="health-rows"></tbody>
      </table></div>
    </section>
  </div>

  <section class="card" aria-labelledby="accounts-title">
    <div class="title">
      <h2 id="accounts-title">Accounts <span id="accounts-count" class="faint"></span></h2>
      <div class="controls">
        <button type="button" id="only-low" class="chip" aria-pressed="false" hidden></button>
        <div class="field"><input id="search" aria-label="Search accounts" type="search" placeholder="Search accounts" autocomplete="off" spellcheck="false"></div>
      </div>
    </div>
    <div class="scroll"><table>
      <thead><tr>
        <th scope="col" id="sort-account"><button type="button">Account</button></th>
        <th scope="col" class="wide">By day</th>
        <th scope="col" id="sort-charged" class="number"><button type="button">Charged</button></th>
        <th scope="col" id="sort-requests" class="number wide"><button type="button">Requests</button></th>
        <th scope="col" id="sort-held" class="number wide"><button type="button">Held</button></th>
        <th scope="col" id="sort-balance" class="number"><button type="button">Balance</button></th>
        <th scope="col" id="sort-lasts" class="number wide"><button type="button">Lasts for</button></th>
      </tr></thead>
      <tbody id="accounts-rows"></tbody>
    </table></div>
    <button type="button" id="more" class="plain" hidden>Show more</button>
  </section>
</div>
</main>
<div id="tooltip" class="tooltip" hidden></div>
<div id="spoken" class="unseen" aria-live="polite"></div>
<script>{script}</script>
</body>
</html>
`;
