import type { JSX } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';

const STORED = 'chat-completions-router-theme';
/** The empty one follows the system. */
const THEMES = ['', 'light', 'dark'];

/** Switches to the next theme. */
export function ThemeButton(): JSX.Element {
  const [theme, setTheme] = useState(storedTheme);
  useLayoutEffect(() => {
    if (theme === '') document.documentElement.removeAttribute('data-theme');
    else document.documentElement.setAttribute('data-theme', theme);
  }, [theme]);

  function change(): void {
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? '';
    setTheme(next);
    try {
      localStorage.setItem(STORED, next);
    } catch {}
  }

  const label = `Theme: ${theme || 'system'}`;
  return (
    <button type="button" id="theme" class="round" aria-label={label} title={label} onClick={change}>
      <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
        <circle cx="10" cy="10" r="7" />
        <path d="M10 3a7 7 0 0 1 0 14z" />
      </svg>
    </button>
  );
}

/** The stored theme; `''` if there is none, or the browser blocks storage. */
function storedTheme(): string {
  try {
    const stored = localStorage.getItem(STORED) ?? '';
    return THEMES.includes(stored) ? stored : '';
  } catch {
    return '';
  }
}
