/** CSS variables of the account page: `accent` is `--account-accent`. */
export type Theme = Readonly<Partial<Record<ThemeVariable, string>>>;

export type ThemeVariable = (typeof THEME_VARIABLES)[number];

export const THEME_VARIABLES = [
  'accent',
  'accent-text',
  'background',
  'surface',
  'text',
  'muted',
  'border',
  'radius',
  'font',
  'danger',
] as const;

/** One value of CSS: what could end a declaration or the style, or load something, is not in it. */
const VALUE = /^[\w#.,%() "'/+-]{1,200}$/;

/** @throws {TypeError} naming the invalid variable */
export function checkTheme(theme: Theme, option: string): void {
  if (typeof theme !== 'object' || theme === null) {
    throw new TypeError(`${option} must be an object of CSS values, got ${typeof theme}`);
  }
  for (const [name, value] of Object.entries<unknown>(theme)) {
    if (!THEME_VARIABLES.some((each) => each === name)) {
      throw new TypeError(
        `${option} has no variable ${JSON.stringify(name)}; it takes ${THEME_VARIABLES.join(', ')}`,
      );
    }
    if (typeof value !== 'string' || !VALUE.test(value) || /url|\/\*/i.test(value)) {
      throw new TypeError(
        `${option}.${name} must be a value of CSS such as "#0a7d4f", without url(), got ${JSON.stringify(value)}`,
      );
    }
  }
}

/** The style that sets the variables, by the browser's preference or by the page's own switch; empty for none. */
export function themeCss(theme: Theme, darkTheme: Theme): string {
  const dark = declarations(darkTheme);
  const rules = [
    rule(':root', declarations(theme)),
    dark && `@media (prefers-color-scheme:dark){${rule(':root:not([data-theme=light])', dark)}}`,
    rule(':root[data-theme=dark]', dark),
  ];
  return rules.join('');
}

function rule(selector: string, set: string): string {
  return set && `${selector}{${set}}`;
}

function declarations(theme: Theme): string {
  return Object.entries(theme)
    .map(([name, value]) => `--account-${name}:${value};`)
    .join('');
}
